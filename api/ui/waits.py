"""The inbox: what waits for a time, a signal or people, and one wait, decided or repaired."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.api.ui import forms
from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.durations import DURATION_EXPECTED, milliseconds
from pipeweave.errors import FieldError, InvalidInput, NotFound, WaitOver

screens = Screens("waits")

# How old waits are, and how long they have yet, changes by itself.
EVERY_S = 5.0
FILTERS = ("kind", "assignee", "pipelineId", "runId")
KINDS = ("approval", "signal", "timer", "callback", "poll", "child")
# What each kind is called among the chips.
KIND_WORDS = {"approval": "Approvals", "signal": "Signals", "timer": "Sleeps"}
# Approvals that the navigation counts.
MOST_COUNTED = 100
# Approvals that are decided together.
MOST_TOGETHER = 100
Wait = Mapping[str, Any]

_REASON = Field("reason", "Reason", about="Stored in the audit.", flag="--reason")
_COMMENT = Field("comment", "Comment", "area", about="Stored with the vote.", flag="--comment")


def open_approvals(view: View) -> str:
    """How many approvals are open in the tenant, for the navigation; empty for none."""
    query = {"kind": "approval", "limit": str(MOST_COUNTED)}
    if view.kept is None or not view.inside.may(view.caller, "waits.list_waits"):
        return ""
    answer, _ = view.kept.ask(view.caller, "waits.list_waits", query, {})
    count = len(answer["waits"])
    return f"{count}{'+' if answer['nextCursor'] else ''}" if count else ""


def wait_of(view: View, id: str) -> Wait | None:
    """An open wait; None once it has ended, or if the task run never waited."""
    try:
        wait: Wait = view.ask("waits.get_wait", id=id)
    except (NotFound, WaitOver):
        return None
    return wait


# --- decisions --------------------------------------------------------------------------------------------


def _decision_fields(view: View) -> list[Field]:
    """The choice, the fields of the form, and a comment."""
    wait = wait_of(view, view.parameters.get("id", ""))
    return [*_asked(wait), _COMMENT]


def _asked(wait: Wait | None) -> list[Field]:
    if wait is None:
        return []
    options = [(each, each) for each in wait["options"]]
    first = wait["options"][0] if options else ""
    choice = Field("choice", "Choice", "choice", choices=options, default=first, flag="--choice")
    return [
        *([choice] if options else []),
        *(forms.fields_of(wait["form"], None, "form") if wait["form"] else []),
    ]


def _decides(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    wait = wait_of(view, ids["id"])
    if wait is None:
        return Effects(["The wait has ended: nothing is decided any more."])
    return Effects(list(_sentences(wait)))


def _sentences(wait: Wait) -> Sequence[str]:
    sentences = [wait["title"] or f"`{wait['stepId']}` waits for a {wait['kind']}"]
    if wait["kind"] == "approval":
        votes, needs = len(wait["votes"]), wait["needs"]
        sentences.append(f"{votes:,} of {needs:,} votes so far; {asked_of(wait)} decide{_s(wait)} about it.")
        if not wait["isMine"]:
            sentences.append("You are not asked: a vote of yours is refused.")
    return sentences


def _s(wait: Wait) -> str:
    return "s" if len(wait["assignees"]) < 2 else ""


def asked_of(wait: Wait) -> str:
    """Whom an approval asks: `ann, finance`."""
    return ", ".join(each.removeprefix("group:") for each in wait["assignees"]) or "anybody who may approve"


def _form_option(body: Any) -> Sequence[str]:
    return ["-i", json.dumps(body["form"], ensure_ascii=False)] if "form" in body else []


VERBS.add(
    Verb(
        "waits.approve",
        "Approve",
        "Approve this?",
        "Your vote is stored.",
        command="pipeweave approve {id}",
        effects=_decides,
        fields_of=_decision_fields,
        options=_form_option,
    )
)
VERBS.add(
    Verb(
        "waits.approve",
        "Decide",
        "Decide about this?",
        "Your vote is stored.",
        command="pipeweave approve {id}",
        effects=_decides,
        fields_of=_decision_fields,
        options=_form_option,
    ),
    "choice",
)
VERBS.add(
    Verb(
        "waits.reject",
        "Reject",
        "Reject this?",
        "Your vote is stored.",
        command="pipeweave reject {id}",
        fields=(_COMMENT,),
        effects=_decides,
        is_dangerous=True,
    )
)


def _chosen(view: View) -> list[Wait]:
    """The approvals that the address chooses and that are open.

    Raises:
        InvalidInput: none is chosen, too many are, or they do not ask for the same.
    """
    ids = [each for each in dict.fromkeys(view.lists.get("ids", ())) if each][: MOST_TOGETHER + 1]
    if not ids or len(ids) > MOST_TOGETHER:
        message = f"choose 1 to {MOST_TOGETHER} approvals"
        raise InvalidInput(message, errors=[FieldError("ids", message, "invalid")])
    waits = [wait for id in ids if (wait := wait_of(view, id)) is not None]
    if len({_likeness(each) for each in waits}) > 1:
        message = "choose approvals that ask for the same form and options"
        raise InvalidInput(message, errors=[FieldError("ids", message, "invalid")])
    return waits


def _likeness(wait: Wait) -> str:
    return json.dumps([wait["kind"], wait["form"], wait["options"]], sort_keys=True)


_IDS = Field("ids", "Approvals", "list")


def _fields_of_all(view: View) -> list[Field]:
    waits = _chosen(view)
    return [_IDS, *_asked(waits[0] if waits else None), _COMMENT]


def _decides_all(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    waits = _chosen(view)
    sentence = f"Decides {len(waits):,} approval{'' if len(waits) == 1 else 's'} in the same way."
    sentences = [sentence, "What is sent is sent once for each of them."]
    return Effects(sentences, len(waits), [each["title"] or each["taskRunId"] for each in waits[:5]])


class _Decision(Verb):
    """Sends the same body for each approval; which these are is no part of it."""

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        body = super().read(texts)
        body.pop("ids", None)
        return body


VERBS.add(
    _Decision(
        "waits.approve",
        "Approve all",
        "Approve all of these?",
        "Your votes are stored.",
        command="pipeweave approve {id}",
        effects=_decides_all,
        fields_of=_fields_of_all,
        options=_form_option,
        each="ids",
    ),
    "all",
)
VERBS.add(
    _Decision(
        "waits.reject",
        "Reject all",
        "Reject all of these?",
        "Your votes are stored.",
        command="pipeweave reject {id}",
        fields=(_IDS, _COMMENT),
        effects=_decides_all,
        is_dangerous=True,
        each="ids",
    ),
    "all",
)


# --- repairs ----------------------------------------------------------------------------------------------


def _repairs(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    wait = wait_of(view, ids["id"])
    if wait is None:
        return Effects(["The wait has ended: there is nothing to repair."])
    return Effects([f"`{wait['stepId']}` of {wait['pipelineId']} goes on at once, whatever comes later."])


def _extends(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    return Effects(
        ["The time is counted from now on. A sleep wakes then; another wait ends if nothing came."]
    )


class _Extension(Verb):
    """Takes the time as people write it: `2d`."""

    def read(self, texts: Mapping[str, str]) -> dict[str, Any]:
        body = super().read(texts)
        ms = milliseconds(body["timeoutMs"])
        if ms is None:
            message = f"must be {DURATION_EXPECTED}"
            raise InvalidInput(
                f"timeoutMs {message}", errors=[FieldError("timeoutMs", message, "invalid", "2d")]
            )
        return {**body, "timeoutMs": ms}


VERBS.add(
    Verb(
        "waits.resolve",
        "Give it a result",
        "End this wait with a result?",
        "The step goes on.",
        command="pipeweave wait resolve {id}",
        fields=(
            Field("output", "Output", "json", "The output of the step.", default="null", flag="-i"),
            _REASON,
        ),
        effects=_repairs,
    )
)
VERBS.add(
    Verb(
        "waits.resolve",
        "Let it fail",
        "End this wait with an error?",
        "The step has failed.",
        command="pipeweave wait resolve {id}",
        fields=(
            Field("error.code", "Error code", default="GIVEN_UP", flag="--error", is_required=True),
            Field("error.message", "Message", flag="--message", is_required=True),
            _REASON,
        ),
        effects=_repairs,
        is_dangerous=True,
    ),
    "error",
)
VERBS.add(
    Verb(
        "waits.wake",
        "Wake it",
        "End this sleep now?",
        "The step goes on.",
        command="pipeweave wait wake {id}",
        fields=(_REASON,),
        effects=_repairs,
    )
)
VERBS.add(
    _Extension(
        "waits.extend",
        "Give it another end",
        "Until when may this wait?",
        "The wait has another end.",
        command="pipeweave wait extend {id} {timeoutMs}",
        fields=(
            Field(
                "timeoutMs",
                "Ends in",
                about="From now on: `30m`, `12h`, `2d`.",
                default="1d",
                is_required=True,
            ),
            _REASON,
        ),
        effects=_extends,
    )
)


# --- screens ----------------------------------------------------------------------------------------------


@screens.add("/waits", "waits.html", every_s=EVERY_S, is_personal=True)
def waits(view: View) -> ScreenPage:
    """What waits, the oldest first."""
    view.require_filters(*FILTERS)
    answer = view.ask("waits.list_waits", view.only(*FILTERS, "cursor", limit="50"))
    shown = {
        "waits": answer["waits"],
        "cursor": answer["nextCursor"],
        "kinds": KINDS,
        "kind_words": KIND_WORDS,
        "is_filtered": view.has_any(*FILTERS),
        "has_mine": any(each["isMine"] for each in answer["waits"]),
    }
    return ScreenPage("Waits", shown)


@screens.add("/waits/<id>", "wait.html", every_s=EVERY_S, is_personal=True)
def wait(view: View, id: str) -> ScreenPage:
    """One wait: what it asks and whom, and the form that decides it; once it is over, how it ended."""
    try:
        document, over = view.ask("waits.get_wait", id=id), None
    except WaitOver as error:
        document, over = None, error.context
    task_run = view.ask("runs.get_task_run", id=id)
    shown = {
        "wait": document,
        "over": over,
        "task_run": task_run,
        "fields": [each for each in _asked(document) if each.name != "choice"],
        "comment": _COMMENT,
    }
    title = (document and document["title"]) or task_run["stepId"]
    return ScreenPage(title, shown, task_run["status"], task_run["runId"])
