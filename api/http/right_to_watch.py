"""The right by which somebody watches: streams of one token have equal ones, and are looked at together."""

from __future__ import annotations

from dataclasses import dataclass

from werkzeug.datastructures import Headers

from pipeweave.api.http.auth import Authenticator
from pipeweave.orchestrator.security import Peer


@dataclass(frozen=True, slots=True, repr=False)
class RightToWatch:
    """What a request was admitted by. Called, it authenticates the request once more, also when it is over.
    It is not shown in logs: it holds a token or a session's secret.

    Args:
        authorization, tenant: the headers.
        scopes: the endpoint needs one of these.
        session: the secret of the browser's session, if the request may use one.
        peer: where the request came from.
    """

    authenticator: Authenticator
    authorization: str
    tenant: str
    scopes: tuple[str, ...]
    session: str | None
    peer: Peer

    def __call__(self) -> None:
        """Look whether it still holds.

        Raises:
            PipeWeaveError: as `Authenticator.admit`.
        """
        headers = Headers({"Authorization": self.authorization, "X-Tenant": self.tenant})
        self.authenticator.admit(headers, self.scopes, session=self.session, peer=self.peer)
