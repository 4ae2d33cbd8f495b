"""Bulk changes: the verbs for many runs, and how far each bulk change is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.api.ui.run_verbs import VERSIONS
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import REASON, VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("runs")

EVERY_S = 1.0
# What was done to a run, in words.
DONE = {
    "cancel": "cancelled",
    "pause": "paused",
    "resume": "resumed",
    "rerun": "run again",
    "retry": "retried",
}

_CHOICE = (
    Field("filter.ids", "Runs", "list", flag="--run"),
    Field("filter.status", "Status", "list", flag="--status"),
    Field("filter.pipelineId", "Pipeline", "list", flag="--pipeline"),
    Field("filter.triggeredBy", "Began by", "hidden", flag="--triggered-by"),
    Field("filter.createdAfter", "Since", "hidden", flag="--since"),
    Field("filter.createdBefore", "Before", "hidden", flag="--until"),
    Field("filter.text", "Text", "hidden", flag="--text"),
    Field("filter.meta", "Metadata", "list", flag="--meta"),
    Field("filter.version", "Version", "hidden", items="number", flag="--pipeline-version"),
    Field("filter.minMs", "Took ms", "hidden", items="number", flag="--min-ms"),
    Field("filter.taskId", "Task", "hidden", flag="--task"),
)
_PACE = Field("perSecond", "Per second", "number", "Empty: as fast as it goes.", flag="--per-second")
_RERUN = (
    Field("fromStep", "From step", about="In each of them. Empty: every step runs.", flag="--from"),
    Field("version", "Version", "choice", choices=VERSIONS, default="same", flag="--version"),
)
# Action -> label, question and further fields.
_ACTIONS: Mapping[str, tuple[str, str, Sequence[Field]]] = {
    "cancel": ("Cancel runs", "Cancel these runs?", (REASON,)),
    "pause": ("Pause runs", "Pause these runs?", (REASON,)),
    "resume": ("Resume runs", "Resume these runs?", ()),
    "rerun": ("Run again", "Run these runs again?", _RERUN),
    "retry": ("Retry what failed", "Retry what failed in these runs?", ()),
}
_NONE_CHOSEN = "No run is chosen."


def _plan(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    """What it would do, by a dry run."""
    if not body.get("filter"):
        return Effects((_NONE_CHOSEN,), 0)
    plan, _ = view.inside.ask(view.caller, "bulk.start", {}, None, {**body, "dryRun": True})
    matched = plan["matched"]
    more = "" if plan["isComplete"] else " or more"
    runs = f"{matched:,}{more} run{'' if matched == 1 else 's'}"
    by_status = ", ".join(f"{number:,} {status}" for status, number in plan["byStatus"].items())
    sentences = [f"`{body['action']}` concerns {runs}{f': {by_status}' if by_status else ''}."]
    if plan["skipped"]:
        named = len(set(body["filter"]["ids"]))
        sentences.append(f"It does not concern {plan['skipped']:,} of the {named:,} that are chosen.")
    if body["action"] == "rerun":
        sentences.append("Each begins a new run; those that are there stay as they are.")
    sentences.append("It goes on when this page is closed, and can be stopped.")
    return Effects(sentences, matched, plan["sample"])


for _action, (_label, _question, _fields) in _ACTIONS.items():
    VERBS.add(
        Verb(
            "bulk.start",
            _label,
            _question,
            "The bulk change has begun.",
            command=f"pipeweave bulk start {_action}",
            fields=(*_CHOICE, *_fields, _PACE),
            effects=_plan,
            body={"action": _action, "filter": {}},
            after="/bulk/{id}",
            is_dangerous=_action == "cancel",
        ),
        _action,
    )
VERBS.add(
    Verb(
        "bulk.cancel",
        "Stop",
        "Stop this bulk change?",
        "It is stopped.",
        command="pipeweave bulk stop {id}",
        is_dangerous=True,
    )
)


@screens.add("/bulk", "bulk_changes.html", every_s=5)
def bulk_changes(view: View) -> ScreenPage:
    """Bulk changes, newest first."""
    answer = view.ask("bulk.list_changes", view.only("cursor", limit="50"))
    return ScreenPage("Bulk changes", {"changes": answer["bulkChanges"], "cursor": answer["nextCursor"]})


@screens.add("/bulk/<id>", "bulk_change.html", every_s=EVERY_S)
def bulk_change(view: View, id: str) -> ScreenPage:
    """One bulk change: how far it is, and what became of its runs."""
    change = view.ask("bulk.get_change", id=id)
    runs = view.ask("bulk.list_runs", view.only("outcome", "cursor", limit="50"), id=id)
    planned = min(change["total"], change["limit"])
    shown = {
        "change": change,
        "runs": runs["runs"],
        "cursor": runs["nextCursor"],
        "planned": planned,
        "over": change["changed"] + change["skipped"],
        "past": DONE[change["action"]],
    }
    return ScreenPage(f"Bulk {change['action']}", shown, status=change["status"])
