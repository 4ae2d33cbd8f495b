"""One tenant: what it is allowed beside what it uses, and what operators do with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound

screens = Screens("access")

# Member of the quotas -> its words, its unit in a form, and the option of the command.
QUOTAS = {
    "runsPerDay": ("Runs a day", "On a day of UTC, without those inside of other runs.", "--runs-per-day"),
    "openTaskRuns": ("Open task runs", "Of open runs, that are not final.", "--open-task-runs"),
    "storedBytes": ("Stored bytes", "In storage, by a sum every ten minutes.", "--stored-bytes"),
    "schedules": ("Schedules", "That are stored, paused ones among them.", "--schedules"),
}
_USED = {"runsPerDay": "runsToday"}


def _quota_fields(view: View) -> Sequence[Field]:
    """The quotas as they are; an empty one allows any number."""
    stored: Mapping[str, Any] = {}
    with suppress(NotFound):
        stored = view.ask("tenants.get_limits", id=view.parameters.get("id", ""))
    numbers = [
        Field(name, words, "number", f"{about} Empty: any number.", default=_text(stored.get(name)))
        for name, (words, about, _) in QUOTAS.items()
    ]
    rate = _text(stored.get("requestRate"))
    return (
        *numbers,
        Field("requestRate", "Request rate", about="Such as `600/m`. Empty: any.", default=rate),
        Field(
            "weight",
            "Weight",
            "number",
            "Turns that it gets where tenants take turns, 1 to 100.",
            default=_text(stored.get("weight", 1)),
            is_required=True,
        ),
    )


def _text(value: object) -> str:
    return "" if value is None else str(value)


def _quota_options(body: Any) -> Sequence[str]:
    """The options that let exactly these quotas hold."""
    flags = {name: flag for name, (*_, flag) in QUOTAS.items()} | {"requestRate": "--request-rate"}
    words = [word for name, flag in flags.items() for word in (flag, _text(body.get(name, "none")))]
    return [*words, "--weight", _text(body.get("weight", 1))]


def _disables(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    tenant = view.ask("tenants.get_tenant", id=ids["id"])
    return Effects(
        (
            "nothing new of it begins, at once; its tokens and browsers are refused within two seconds",
            f"what is under way ends: {tenant['activeRuns']:,} active runs",
        )
    )


def _deletes(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    tenant = view.ask("tenants.get_tenant", id=ids["id"])
    number = tenant["activeRuns"] + tenant["pendingRuns"]
    return Effects(
        (
            f"it is disabled at once, and its open runs are cancelled: {number:,}",
            "its runs, history, definitions, schedules, uploads and tokens are deleted, for good",
            "its objects go with the next sweep of the storage; the audit and archives of months stay",
        ),
        typed=ids["id"],
    )


VERBS.add(
    Verb(
        "tenants.put_tenant",
        "Limit active runs",
        "Limit the tenant's active runs?",
        "The limit is set.",
        fields=(Field("maxActiveRuns", "Active runs at most", "number", about="Empty: no limit."),),
    )
)
VERBS.add(
    Verb(
        "tenants.put_limits",
        "Set quotas",
        "Let exactly these quotas hold?",
        "The quotas hold.",
        command="pipeweave tenant limits {id}",
        fields_of=_quota_fields,
        options=_quota_options,
        takes_tenant=False,
    )
)
VERBS.add(
    Verb(
        "tenants.disable",
        "Disable",
        "Disable this tenant?",
        "The tenant is disabled.",
        command="pipeweave tenant disable {id}",
        fields=(Field("reason", "Reason", about="Who is refused reads it.", flag="--reason"),),
        effects=_disables,
        takes_tenant=False,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "tenants.enable",
        "Enable",
        "Let this tenant go on?",
        "The tenant is enabled. What its schedules missed follows their missed policy.",
        command="pipeweave tenant enable {id}",
        takes_tenant=False,
    )
)
VERBS.add(
    Verb(
        "tenants.delete",
        "Delete",
        "Delete all of this tenant?",
        "The tenant is disabled, and being deleted.",
        command="pipeweave tenant delete {id} --yes",
        effects=_deletes,
        takes_tenant=False,
        is_dangerous=True,
    )
)


@screens.add("/tenants/<id>", "tenant.html")
def tenant(view: View, id: str) -> ScreenPage:
    """A tenant of the caller's: its limits with what is used of them, and how far its deletion is."""
    deletion = _deletion(view, id)
    if deletion is not None and deletion["finishedAt"] is not None:
        with suppress(NotFound):  # the name is used again
            return ScreenPage(id, {**_shown(view, id), "deletion": None})
        return ScreenPage(id, {"tenant": None, "deletion": deletion})
    return ScreenPage(id, {**_shown(view, id), "deletion": deletion})


def _shown(view: View, id: str) -> dict[str, Any]:
    quotas = view.ask("tenants.get_limits", id=id)
    rows = [
        (words, quotas[name], quotas["used"][_USED.get(name, name)], name == "storedBytes")
        for name, (words, *_) in QUOTAS.items()
    ]
    return {"tenant": view.ask("tenants.get_tenant", id=id), "quotas": quotas, "rows": rows}


def _deletion(view: View, id: str) -> Mapping[str, Any] | None:
    """How far the last deletion of a tenant of this name is; None without one, and for who may not know."""
    if not view.inside.may(view.caller, "tenants.get_deletion"):
        return None
    with suppress(NotFound):
        deletion: Mapping[str, Any] = view.ask("tenants.get_deletion", id=id)
        return deletion
    return None
