"""The orchestrator schedules and records; it asks nobody whether work should happen (docs/decisions/0097)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from support.pages import ROOT
from support.source_tree import imports, names_used, sources

from pipeweave import errors
from pipeweave.settings.table import TABLE

# The rooms of the orchestrator that admit, order and release work. Beside them, `dispatch` calls services
# that do the work, and `starts/hooks` tells others of what has ended.
DECIDE = (
    "domain",
    "registry",
    "state",
    "queueing",
    "engine",
    "runs",
    "waits",
    "deadletters",
    "operations",
    "starts",
)
OUTSIDE = (
    *(
        "pipeweave.sending",
        "pipeweave.client",
        "urllib3",
        "urllib.request",
        "http.client",
        "requests",
    ),
    *("subprocess", "importlib.metadata", "importlib.import_module"),
)
# `socket` itself is imported for the name of the host.
CALLS = {"create_connection", "socketpair", "urlopen", "entry_points"}
# Who somebody is, of which tenant, and from which site a browser asks: nothing about the work.
ABOUT_WHO_ASKS = {"FORBIDDEN", "TENANT_DISABLED", "CROSS_SITE"}
# Where a connection goes, each of them to a part of the deployment or to what shows it.
URLS = {"DATABASE_URL", "BROKER_URL", "PIPEWEAVE_ORCHESTRATOR_URL"}


def decides(path: Path) -> bool:
    folder, room, *rest = path.relative_to(ROOT).parts
    return folder == "orchestrator" and room in DECIDE and rest[:1] != ["hooks"]


def test_what_admits_orders_and_releases_work_asks_nobody_outside() -> None:
    deciding = [path for path in sources() if decides(path)]
    assert len(deciding) > 100
    assert not {
        str(path.relative_to(ROOT)): outside
        for path in deciding
        if (outside := {*filter(is_outside, imports(path)), *CALLS.intersection(names_used(path))})
    }


def is_outside(name: str) -> bool:
    return any(name == each or name.startswith(f"{each}.") for each in OUTSIDE)


def test_a_refusal_of_a_right_is_about_who_asks() -> None:
    refusals = {kind.code for kind in kinds(errors.PipeWeaveError) if getattr(kind, "status", None) == 403}
    assert refusals == ABOUT_WHO_ASKS


def kinds(kind: type[errors.PipeWeaveError]) -> Iterator[type[errors.PipeWeaveError]]:
    for each in kind.__subclasses__():
        yield each
        yield from kinds(each)


def test_no_setting_names_somebody_who_is_asked_for_permission() -> None:
    names = {each.name for each in TABLE}
    assert not {
        name for name in names if re.search(r"POLICY|PERMISSION|VETO|WEBHOOK|AUTHORI[SZ]ER|_HOOK", name)
    }
    assert {name for name in names if name.endswith("_URL")} <= URLS
