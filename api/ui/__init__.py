"""The dashboard: pages for people, rendered on the server, that show what the API tells.

`create_app` registers it. A screen is one file: it reads through `View.ask`, which calls an endpoint of the
API, and its template lies in `templates`. This package must never read from the orchestrator by itself, and
never render a text of a user as anything but text.
"""

from pipeweave.api.ui.access import screens as access
from pipeweave.api.ui.audit import screens as audit
from pipeweave.api.ui.bulk import screens as bulk
from pipeweave.api.ui.bundles import screens as bundles
from pipeweave.api.ui.compare_page import screens as compare_page
from pipeweave.api.ui.dashboard import Dashboard
from pipeweave.api.ui.dead_letters import screens as dead_letters
from pipeweave.api.ui.enqueued import screens as enqueued
from pipeweave.api.ui.exports import screens as exports
from pipeweave.api.ui.overview import screens as overview
from pipeweave.api.ui.parts_page import screens as parts_page
from pipeweave.api.ui.pipelines import screens as pipelines
from pipeweave.api.ui.queues import screens as queues
from pipeweave.api.ui.run_page import screens as run_page
from pipeweave.api.ui.run_times import screens as run_times
from pipeweave.api.ui.runs import screens as runs
from pipeweave.api.ui.schedules import screens as schedules
from pipeweave.api.ui.screens import Screen
from pipeweave.api.ui.settings import screens as settings
from pipeweave.api.ui.storage import screens as storage
from pipeweave.api.ui.task_run_page import screens as task_run_page
from pipeweave.api.ui.tasks import screens as tasks
from pipeweave.api.ui.tenants import screens as tenants
from pipeweave.api.ui.triggers import screens as triggers
from pipeweave.api.ui.waits import screens as waits
from pipeweave.api.ui.workers import screens as workers

_SCREENS = (
    overview,
    runs,
    exports,
    bulk,
    run_page,
    run_times,
    task_run_page,
    compare_page,
    pipelines,
    bundles,
    tasks,
    workers,
    dead_letters,
    queues,
    enqueued,
    waits,
    schedules,
    triggers,
    storage,
    access,
    tenants,
    audit,
    settings,
)
SCREENS: tuple[Screen, ...] = tuple(row for screens in _SCREENS for row in screens.rows)

# For whoever works on them; see the setting UI_PARTS.
PARTS: tuple[Screen, ...] = tuple(parts_page.rows)

__all__ = ["PARTS", "SCREENS", "Dashboard"]
