"""Endpoints of access: tokens, and the sessions of browsers."""

from __future__ import annotations

from typing import Any

from pipeweave import ids
from pipeweave.api.contract.access import (
    EndSessionRequest,
    LoginLinkRequest,
    RevokeTokenRequest,
    TokenRequest,
)
from pipeweave.api.contract.query_parameters import PageQuery
from pipeweave.api.http import Answer, Call, PathId, Routes
from pipeweave.errors import Forbidden, NotFound
from pipeweave.orchestrator.documents.access import (
    CreatedToken,
    EndedSession,
    LoginLink,
    RevokedTokens,
    SessionList,
    TokenList,
)
from pipeweave.orchestrator.domain import iso
from pipeweave.orchestrator.reading import sessions as session_list
from pipeweave.orchestrator.reading import tokens as token_list
from pipeweave.orchestrator.security import ADMIN, EVERY_TENANT, READ, TICK, TOKEN_ID, access_tokens, sessions

routes = Routes("access")

LOGIN_PATH = "/ui/login"


@routes.add(
    "GET",
    "/api/tokens",
    "List the tokens",
    scopes=(ADMIN,),
    is_about_caller=True,
    query=PageQuery,
    answer=TokenList,
)
def list_tokens(call: Call, query: PageQuery) -> dict[str, Any]:
    """Tokens without their texts, newest first, also those that have ended. A token that is valid for a
    tenant that the request's token may not enter is not listed.
    """
    with call.reading() as tx:
        return query.named("tokens", token_list.tokens(tx, call.access.tenants, query.page()))


@routes.add(
    "POST",
    "/api/tokens",
    "Create a token",
    scopes=(ADMIN,),
    is_about_caller=True,
    body=TokenRequest,
    answers={201: (CreatedToken, "The token. Store it: it cannot be read again.")},
    example={"name": "ci", "scopes": ["orchestrator:write"], "tenants": ["default"]},
)
def create_token(call: Call, body: TokenRequest) -> Answer:
    """Create a token for tenants that the request's token may enter. It ends with that token at the latest,
    and is bound to the same networks and certificate, or to narrower networks. Scope `orchestrator:tick` acts
    for all tenants, so only a token for every tenant may give it.
    """
    _check_gift(call, body)
    made = call.change(
        lambda tx: access_tokens.make_token(
            tx,
            name=body.name,
            tenants=body.tenants,
            scopes=body.full_scopes,
            expires_at=body.expires_at,
            maker=call.access.token_id,
            person=call.access.id if call.access.subject is not None else None,
            groups=body.groups,
            bounds=body.bounds,
        )
    )
    shown = {
        "id": ids.show(TOKEN_ID, made.id),
        "name": body.name,
        "token": made.token,
        "tenants": sorted(set(body.tenants)),
        "scopes": sorted(set(body.full_scopes)),
        "groups": sorted(set(body.groups)),
        "networks": list(made.bounds.networks),
        "serviceId": made.bounds.service_id,
        "certificate": made.bounds.certificate,
        "expiresAt": iso(made.expires_at),
    }
    return Answer(shown, 201)


def _check_gift(call: Call, body: TokenRequest) -> None:
    if not call.access.covers(body.tenants):
        raise Forbidden(
            "the token may not give access to tenants that it may not enter",
            hint=f"its tenants are {', '.join(call.access.tenants)}",
        )
    if TICK in body.full_scopes and not call.access.may_enter(EVERY_TENANT):
        raise Forbidden(
            f"{TICK} acts for all tenants, and the token is not valid for all tenants",
            neededTenants=EVERY_TENANT,
        )


@routes.add(
    "POST",
    "/api/tokens/{name}/revoke",
    "Revoke a token",
    scopes=(ADMIN,),
    is_about_caller=True,
    ids={"name": PathId(None, "The token's name, its id, or the beginning of its id with `tok_`.")},
    body=RevokeTokenRequest,
    is_body_optional=True,
    answer=RevokedTokens,
    errors=(NotFound,),
)
def revoke_token(call: Call, name: str, body: RevokeTokenRequest) -> dict[str, Any]:
    """Refuse all tokens of this name, or the token with this id, within two seconds, and end their sessions.
    Tokens for tenants that the request's token may not enter are not there for it. With `children`, the
    tokens that these made are refused, too.
    """
    tenants, children = call.access.tenants, body.children
    revoked = call.change(lambda tx: access_tokens.revoke(tx, name, tenants, takes_children=children))
    return {"revoked": revoked}


@routes.add(
    "GET",
    "/api/sessions",
    "List the sessions of browsers",
    scopes=(ADMIN,),
    is_about_caller=True,
    query=PageQuery,
    answer=SessionList,
)
def list_sessions(call: Call, query: PageQuery) -> dict[str, Any]:
    """Open sessions, newest first. A session ends 12 hours after its last use, and after 7 days, with its
    token at the latest.
    """
    with call.reading() as tx:
        return query.named("sessions", session_list.sessions(tx, call.access.tenants, query.page()))


@routes.add(
    "POST",
    "/api/sessions/links",
    "Make a link that logs in",
    scopes=(READ,),
    is_about_caller=True,
    body=LoginLinkRequest,
    is_body_optional=True,
    answers={201: (LoginLink, "The link.")},
)
def make_link(call: Call, body: LoginLinkRequest) -> Answer:
    """Make a link that logs one browser in, once, within 60 seconds, with the rights of the request's token.

    Its code stands behind `#`: browsers send that to no server, so no log has it.
    """
    token_id = call.access.token_id
    if token_id is None:
        raise Forbidden(
            "a link has the rights of a token, and the session is that of a person",
            hint="log in at the provider, or make a link with a token: `pipeweave open`",
        )
    code, expires_at = call.change(lambda tx: sessions.make_link(tx, token_id))
    return Answer({"path": f"{LOGIN_PATH}#{code}", "code": code, "expiresAt": iso(expires_at)}, 201)


@routes.add(
    "POST",
    "/api/sessions/{id}/revoke",
    "End a session",
    scopes=(ADMIN,),
    is_about_caller=True,
    ids={"id": PathId(sessions.SESSION_ID, "The session's id.")},
    body=EndSessionRequest,
    is_body_optional=True,
    answer=EndedSession,
    errors=(NotFound,),
)
def end_session(call: Call, id: str, body: EndSessionRequest) -> dict[str, Any]:
    """Log a browser out, within two seconds. Its token stays valid."""
    name = call.change(lambda tx: sessions.revoke(tx, id, call.access.tenants))
    return {"id": id, "tokenName": name}
