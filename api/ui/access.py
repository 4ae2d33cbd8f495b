"""The screen of access: tokens, sessions of browsers, and tenants."""

from __future__ import annotations

from pipeweave.api.ui.screens import ScreenPage, Screens
from pipeweave.api.ui.verbs import VERBS, Field, Verb
from pipeweave.api.ui.view import View

screens = Screens("access")

TABS = (("tokens", "Tokens"), ("sessions", "Sessions"), ("tenants", "Tenants"))
_SCOPES = (
    ("read", "read"),
    ("write", "write (includes read)"),
    ("admin", "admin (includes write)"),
    ("worker", "worker"),
    ("tick", "tick"),
)

VERBS.add(
    Verb(
        "access.create_token",
        "Create a token",
        "Create an access token?",
        "The token is made.",
        command="pipeweave token create {name}",
        fields=(
            Field("name", "Name", about="For people; it stands in the audit.", is_required=True),
            Field(
                "scopes",
                "Scopes",
                "several",
                choices=_SCOPES,
                default="read",
                flag="--scope",
                is_required=True,
            ),
            Field(
                "tenants",
                "Tenants",
                "lines",
                about="One a line; `*` stands for all.",
                flag="--tenant",
                is_required=True,
            ),
            Field(
                "expiresAt",
                "Expires at",
                about="E.g. `2027-01-31T12:00:00Z`; empty: with the token that you logged in with, "
                "with the scope admin after 90 days.",
                flag="--expires",
            ),
            Field(
                "networks",
                "Networks",
                "lines",
                about="It may be used from these alone, e.g. `10.1.0.0/16`; one a line. Empty: as yours.",
                flag="--network",
            ),
            Field(
                "serviceId",
                "Service",
                about="For the scope worker alone: the only service that it may register.",
                flag="--service",
            ),
            Field(
                "certificate",
                "Certificate",
                about="SHA-256 of the certificate that its user must have; empty: as yours.",
                flag="--certificate",
            ),
        ),
        shows="shown_once.html",
        takes_tenant=False,
    )
)
VERBS.add(
    Verb(
        "access.revoke_token",
        "Revoke",
        "Revoke this token?",
        "The token is refused within two seconds, and its sessions are over.",
        command="pipeweave token revoke {name}",
        fields=(
            Field(
                "children",
                "With what it made",
                "boolean",
                about="Also revoke the tokens that it made, and what those made.",
                flag="--children",
            ),
        ),
        takes_tenant=False,
        is_dangerous=True,
    )
)
VERBS.add(
    Verb(
        "access.end_session",
        "End",
        "Log this browser out?",
        "The session is over within two seconds.",
        is_dangerous=True,
    )
)


@screens.add("/access", "access.html")
def access(view: View) -> ScreenPage:
    """Who may enter: the tokens and sessions that the caller may see, and its tenants."""
    tab = view.parameters.get("tab", TABS[0][0])
    tab = tab if tab in dict(TABS) else TABS[0][0]
    room = "tenants" if tab == "tenants" else "access"
    answer = view.ask(f"{room}.list_{tab}", view.only("cursor", limit="50"))
    return ScreenPage(
        "Access", {"tab": tab, "tabs": TABS, "rows": answer[tab], "cursor": answer["nextCursor"]}
    )
