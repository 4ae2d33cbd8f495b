"""Dead letters: their groups, one of them in full, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("dead-letters")

# What lists, redrives and discards choose dead letters by, with its words and its option of the command.
_FILTERS = (
    Field("pipelineId", "Pipeline", flag="--pipeline", is_further=True),
    Field("taskId", "Task", flag="--task", is_further=True),
    Field("errorCode", "Error code", flag="--error-code", is_further=True),
    Field(
        "fingerprint",
        "Fingerprint",
        about="Similar errors have the same.",
        flag="--fingerprint",
        is_further=True,
    ),
    Field(
        "since", "Failed since", about="For example 2026-11-20T12:00:00Z.", flag="--since", is_further=True
    ),
    Field("until", "Failed before", flag="--until", is_further=True),
)
_NAMES = tuple(each.name for each in _FILTERS)
_REASON = Field("reason", "Reason", about="Shown with the dead letter.", flag="--reason")
# Groups that a page shows.
MOST_GROUPS = "50"
STATUSES = ("open", "retried", "discarded", "all")


def _number(count: int, *, is_capped: bool = False) -> str:
    more = "+" if is_capped else ""
    return f"{count:,}{more} dead letter{'' if count == 1 and not is_capped else 's'}"


def _redrives(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    chosen = {name: body[name] for name in _NAMES if name in body}
    answer = view.ask("dead_letters.list_dead_letters", {**chosen, "limit": "3"})
    groups = view.ask("dead_letters.group_dead_letters", {**chosen, "limit": MOST_GROUPS})["groups"]
    most = min(answer["total"], body.get("limit", answer["total"]))
    sentences = [
        f"retries {_number(most, is_capped=answer['totalIsCapped'] and most == answer['total'])}"
        f" in {len(groups)} group{'' if len(groups) == 1 else 's'}"
    ]
    if "canary" in body:
        sentences.append(f"first {body['canary']} of them; the others follow when these ended well enough")
    unchanged = [f"`{each['taskId']}`" for each in groups if not each["codeChanged"]]
    if unchanged:
        named = ", ".join(list(dict.fromkeys(unchanged))[:5])
        sentences.append(f"the code of {named} has not changed since the failure: the same may happen again")
    return Effects(
        sentences, most, [each["id"] for each in answer["items"]], title=_title("Redrive", most, groups)
    )


def _title(verb: str, count: int, groups: Sequence[Mapping[str, Any]]) -> str:
    """What is done, in one line, with the error where there is only one."""
    if len(groups) != 1:
        return f"{verb} {_number(count)}"
    return f"{verb} {count:,} \u00d7 {groups[0]['errorCode']} of {groups[0]['taskId']}"


def _discards(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    chosen = {name: body[name] for name in _NAMES if name in body}
    answer = view.ask("dead_letters.list_dead_letters", {**chosen, "limit": "3"})
    count = _number(answer["total"], is_capped=answer["totalIsCapped"])
    sentences = [f"discards {count}: none of them can be retried any more"]
    title = f"Discard {count}"
    return Effects(sentences, answer["total"], [each["id"] for each in answer["items"]], title=title)


VERBS.add(
    Verb(
        "dead_letters.retry",
        "Retry",
        "Retry this dead letter?",
        "It is retried.",
        command="pipeweave dlq retry {id}",
    )
)
VERBS.add(
    Verb(
        "dead_letters.discard",
        "Discard",
        "Discard this dead letter?",
        "It is discarded.",
        command="pipeweave dlq discard {id}",
        fields=(_REASON,),
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "dead_letters.retry_all",
        "Redrive",
        "Retry these dead letters?",
        "The redrive has begun.",
        command="pipeweave dlq retry-all",
        fields=(
            Field(
                "canary",
                "Canary",
                "number",
                "So many are retried first; the others follow when these have ended well enough.",
                default="3",
                flag="--canary",
            ),
            Field("perSecond", "Per second", "number", "Empty: as fast as it goes.", flag="--per-second"),
            Field(
                "stopOnSameFingerprint",
                "Stop above",
                "number",
                "Percent of those that ended and failed again in the same way.",
                default="50",
                flag="--stop-percent",
            ),
            Field("limit", "At most", "number", "Empty: all that match.", flag="--limit", is_further=True),
            *_FILTERS,
        ),
        effects=_redrives,
        after="/redrives/{id}",
    )
)
VERBS.add(
    Verb(
        "dead_letters.discard_matching",
        "Discard all",
        "Discard these dead letters?",
        "They are discarded.",
        command="pipeweave dlq discard",
        fields=(_REASON, *_FILTERS),
        effects=_discards,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "dead_letters.purge",
        "Delete old ones",
        "Delete old dead letters for good?",
        "They are deleted.",
        command="pipeweave dlq purge",
        fields=(
            Field(
                "olderThan",
                "Older than",
                about="Age since the failure, such as `30d` or `12h`. Open ones are deleted, too.",
                default="30d",
                flag="--older-than",
                is_required=True,
            ),
        ),
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "dead_letters.cancel_redrive",
        "Stop redrive",
        "Stop this redrive?",
        "The redrive is stopped.",
        command="pipeweave dlq redrive {id} --cancel",
        is_dangerous=True,
    )
)


@screens.add("/dead-letters", "dead_letters.html")
def dead_letters(view: View) -> ScreenPage:
    """Groups of similar failures, a sample of the chosen one, and the dead letters themselves."""
    view.require_filters(*_NAMES, "status")
    times = view.instants("since", "until")
    query = {**view.only(*_NAMES, "status"), **times}
    groups = view.ask("dead_letters.group_dead_letters", {**query, "limit": MOST_GROUPS})
    answer = view.ask("dead_letters.list_dead_letters", {**query, **view.only("cursor", limit="50")})
    chosen = {name: view.parameters[name] for name in _NAMES if view.parameters.get(name)}
    shown = {
        "groups": groups["groups"],
        "letters": answer["items"],
        "cursor": answer["nextCursor"],
        "total": answer["total"],
        "is_capped": answer["totalIsCapped"],
        # The verbs take times with their offset.
        "chosen": {**chosen, **times},
        "chips": [(each.label, chosen[each.name], each.name) for each in _FILTERS if each.name in chosen],
        "statuses": STATUSES,
        "status": view.parameters.get("status", "open"),
        "sample": _sample(view, groups["groups"]),
    }
    return ScreenPage("Dead letters", shown)


def _sample(view: View, groups: list[Any]) -> Any:
    """The newest dead letter of the only group that is shown."""
    if len(groups) != 1:
        return None
    return view.ask("dead_letters.get_dead_letter", id=groups[0]["newest"])


@screens.add("/dead-letters/<id>", "dead_letter.html")
def dead_letter(view: View, id: str) -> ScreenPage:
    """One dead letter: what failed, in which code, each attempt, and its input."""
    letter = view.ask("dead_letters.get_dead_letter", id=id)
    title = f"{letter['taskId']}: {letter['errorCode']}"
    return ScreenPage(title, {"letter": letter}, status=letter["outcome"])


@screens.add("/redrives", "redrives.html", every_s=5)
def redrives(view: View) -> ScreenPage:
    """Retries of many dead letters, newest first."""
    answer = view.ask("dead_letters.list_redrives", view.only("cursor", limit="50"))
    return ScreenPage("Redrives", {"redrives": answer["redrives"], "cursor": answer["nextCursor"]})


@screens.add("/redrives/<id>", "redrive.html", every_s=1)
def redrive(view: View, id: str) -> ScreenPage:
    """One redrive: how far it is, and what became of its retries."""
    answer = view.ask("dead_letters.get_redrive", id=id)
    return ScreenPage("Redrive", {"redrive": answer}, status=answer["status"])
