"""Asks the OpenID provider who a person is, and what its answer allows.

`api/http` and `api/ui` call it. It speaks to the provider that OIDC_ISSUER names and to nobody else, each
exchange with a deadline and a bound. It must never begin a session, read the database, or believe an answer
that is not signed by the provider's keys."""

from pipeweave.api.oidc.provider import LoginTrial, Provider, VouchedPerson

__all__ = ["LoginTrial", "Provider", "VouchedPerson"]
