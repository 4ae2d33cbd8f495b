"""Bundles: what is installed for the tenant, whose signatures it trusts, and one bundle with its versions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Effects, Field, Verb
from pipeweave.api.ui.view import View
from pipeweave.errors import NotFound

screens = Screens("pipelines")

TABS = (("bundles", "Bundles"), ("keys", "Keys"))
# State of a version -> the status whose mark it has.
MARKS = {"installed": "completed", "superseded": "skipped", "revoked": "cancelled", "untrusted": "failed"}
# Tasks of a bundle that a question names.
NAMED = 5
_REASON = Field("reason", "Reason", about="`pipeweave why` tells it of what waits.", flag="--reason")


def _revokes(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    """What waits when the version counts no more."""
    versions = view.ask("bundles.get_bundle", id=ids["id"])["versions"]
    wanted = body.get("version")
    version = next((each for each in versions if each["version"] == wanted), versions[0])
    for_good = f"version {version['version']} counts no more, for good; no older one takes its place"
    if version["state"] not in ("installed", "untrusted"):
        return Effects((for_good,))
    number = len(version["tasks"])
    tasks = "its task waits" if number == 1 else f"its {number:,} tasks wait"
    return Effects(
        (
            for_good,
            f"{tasks} until a newer version is installed; attempts that run end as they do",
        ),
        sample=version["tasks"][:NAMED],
    )


def _distrusts(view: View, ids: Mapping[str, str], body: Any) -> Effects:
    """Which bundles no other trusted key has signed."""
    names = {ids["id"]} | {
        each["name"] for each in view.ask("bundles.list_keys")["keys"] if each["id"] == ids["id"]
    }
    parked = [
        each["id"]
        for each in view.ask("bundles.list_bundles")["bundles"]
        if each["state"] == "installed" and each["keyNames"] and names.issuperset(each["keyNames"])
    ]
    number = "no bundle waits" if not parked else f"the tasks of {', '.join(parked[:NAMED])} wait"
    more = f" (and of {len(parked) - NAMED:,} more bundles)" if len(parked) > NAMED else ""
    goes_on = " until they are installed with another signature" if parked else ": others have signed them"
    return Effects(("the key is trusted no more, for good", f"{number}{more}{goes_on}"))


VERBS.add(
    Verb(
        "bundles.revoke_bundle",
        "Revoke",
        "Revoke this version of the bundle?",
        "The version counts no more: workers start nothing of it from about two seconds later on.",
        command="pipeweave bundle revoke {id}",
        fields=(Field("version", "Version", "hidden", flag="--version"), _REASON),
        effects=_revokes,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "bundles.add_key",
        "Trust a key",
        "Trust bundles that a key has signed?",
        "The key is trusted.",
        command="pipeweave bundle keys add {name} KEY.pub",
        fields=(
            Field("name", "Name", about="For people, such as `releases`.", is_required=True),
            Field(
                "publicKey",
                "Public key",
                "area",
                about="The text of the `.pub` file of `pipeweave bundle keygen`.",
                is_required=True,
            ),
        ),
    )
)
VERBS.add(
    Verb(
        "bundles.revoke_key",
        "Revoke",
        "Trust this key no more?",
        "The key is trusted no more.",
        command="pipeweave bundle keys revoke {id}",
        fields=(_REASON,),
        effects=_distrusts,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "bundles.put_only_signed",
        "Take only signed pipelines",
        "Take new versions of pipelines from signed bundles alone?",
        "Only signed bundles bring new versions of pipelines.",
        command="pipeweave tenant signed-pipelines {id} --only",
        body={"onlySigned": True},
        takes_tenant=False,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "bundles.put_only_signed",
        "Take all pipelines",
        "Take pipelines from code and documents, too?",
        "Pipelines may come from code and documents, too.",
        command="pipeweave tenant signed-pipelines {id} --all",
        body={"onlySigned": False},
        takes_tenant=False,
    ),
    "all",
)


@screens.add("/bundles", "bundles.html", every_s=5.0)
def bundles(view: View) -> ScreenPage:
    """The tenant's bundles, each in the version that counts; or the keys that it trusts."""
    tab = "keys" if view.parameters.get("tab") == "keys" else "bundles"
    rows = view.ask(f"bundles.list_{tab}")[tab]
    is_strict = tab == "keys" and _takes_only_signed(view)
    return ScreenPage(
        "Bundles", {"tab": tab, "tabs": TABS, "rows": rows, "marks": MARKS, "is_strict": is_strict}
    )


def _takes_only_signed(view: View) -> bool:
    try:
        return bool(view.ask("tenants.get_tenant", id=view.tenant)["takesOnlySigned"])
    except NotFound:  # it begins with its first registration, trigger or limit
        return False


@screens.add("/bundles/<id>", "bundle.html", every_s=5.0)
def bundle(view: View, id: str) -> ScreenPage:
    """One bundle: what the version that counts brings, who signed it, who has loaded it, and its versions."""
    answer = view.ask("bundles.get_bundle", id=id)
    versions = answer["versions"]
    wanted = view.parameters.get("version")
    counting = next((each for each in versions if each["state"] in ("installed", "untrusted")), versions[0])
    shown = next((each for each in versions if each["version"] == wanted), counting)
    keys = {each["id"]: each for each in view.ask("bundles.list_keys")["keys"]}
    return ScreenPage(
        id,
        {
            "shown": shown,
            "counting": counting,
            "versions": versions,
            "workers": answer["workers"],
            "keys": keys,
            "marks": MARKS,
        },
    )
