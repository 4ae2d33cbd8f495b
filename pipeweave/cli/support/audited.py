"""Makes the row of the audit of a command that changes the database itself."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipeweave.orchestrator.security import audit

# Command -> the kind of object that it changes.
COMMANDS: Mapping[str, str] = {
    "token create": "token",
    "token revoke": "token",
    "db cleanup": "months",
    "verify": "run",
    "secrets rewrap": "stored_secret",
}
# Command that gets at the database itself -> why it has no row.
NOT_AUDITED: Mapping[str, str] = {
    "token list": "it changes nothing",
    "secrets check": "it changes nothing",
    "secrets list": "it changes nothing",
    "recover": "it runs ticks, as beat does",
    "db archive": "it writes to storage, and changes no row",
    "doctor": "it changes nothing",
    "db stats": "it counts the events anew, and changes no run",
    "db status": "it changes nothing",
    "db partitions": "it changes nothing",
    "db migrate": "there may be no table yet; the schema's version says it",
    "db init": "there may be no table yet; the schema's version says it",
    "db downgrade": "the table may go with it; the schema's version says it",
    "db reset": "it deletes the audit, too",
}


def note(command: str, object: str = "", details: Any = None, tenant: str | None = None) -> audit.Note:
    """The row of a command: its actor is the user of this machine."""
    from pipeweave.orchestrator.security import audit

    actor = audit.Actor("command", f"{_user()}@{socket.gethostname()}")
    return audit.Note(actor, command, COMMANDS[command], tenant, object, details)


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # containers may run as a number without a name
        return str(os.getuid())
