"""The endpoints of the API: one file of handlers per subject, collected in ENDPOINTS.

A handler calls one verb or query of the orchestrator and shapes its result. `create_app` and the OpenAPI
document use ENDPOINTS. A handler must never authenticate, parse the body itself or contain SQL: `api/http`
does the first two, the orchestrator the last.
"""

from pipeweave.api.http import Endpoint
from pipeweave.api.routes.access import routes as access
from pipeweave.api.routes.audit import routes as audit
from pipeweave.api.routes.bulk import routes as bulk
from pipeweave.api.routes.bundles import routes as bundles
from pipeweave.api.routes.callbacks import routes as callbacks
from pipeweave.api.routes.dead_letters import routes as dead_letters
from pipeweave.api.routes.deployment import routes as deployment
from pipeweave.api.routes.enqueued import routes as enqueued
from pipeweave.api.routes.exports import routes as exports
from pipeweave.api.routes.expressions import routes as expressions
from pipeweave.api.routes.graphs import routes as graphs
from pipeweave.api.routes.maintenance import routes as maintenance
from pipeweave.api.routes.metrics import routes as metrics
from pipeweave.api.routes.objects import routes as objects
from pipeweave.api.routes.pipelines import routes as pipelines
from pipeweave.api.routes.queue import routes as queue
from pipeweave.api.routes.reruns import routes as reruns
from pipeweave.api.routes.run_questions import routes as run_questions
from pipeweave.api.routes.run_times import routes as run_times
from pipeweave.api.routes.runs import routes as runs
from pipeweave.api.routes.schedules import routes as schedules
from pipeweave.api.routes.services import routes as services
from pipeweave.api.routes.statistics import routes as statistics
from pipeweave.api.routes.storage import routes as storage
from pipeweave.api.routes.stream import routes as stream
from pipeweave.api.routes.system import routes as system
from pipeweave.api.routes.tasks import routes as tasks
from pipeweave.api.routes.tenants import routes as tenants
from pipeweave.api.routes.triggers import routes as triggers
from pipeweave.api.routes.uploads import routes as uploads
from pipeweave.api.routes.views import routes as views
from pipeweave.api.routes.waits import routes as waits
from pipeweave.api.routes.webhooks import routes as webhooks
from pipeweave.api.routes.worker_reports import routes as worker_reports
from pipeweave.api.routes.workers import routes as workers

ENDPOINTS: tuple[Endpoint, ...] = tuple(
    endpoint
    for routes in (
        system,
        metrics,
        services,
        worker_reports,
        workers,
        objects,
        tasks,
        pipelines,
        expressions,
        graphs,
        queue,
        runs,
        waits,
        views,
        run_times,
        run_questions,
        reruns,
        bulk,
        enqueued,
        exports,
        statistics,
        schedules,
        triggers,
        webhooks,
        callbacks,
        stream,
        dead_letters,
        storage,
        uploads,
        bundles,
        maintenance,
        access,
        tenants,
        audit,
        deployment,
    )
    for endpoint in routes.endpoints
)
