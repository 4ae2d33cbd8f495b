"""Named views over HTTP: saved for a tenant, replaced by name, bounded, deleted."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pipeweave.orchestrator.registry import MOST_VIEWS
from pipeweave.orchestrator.security.access_tokens import ADMIN, READ

if TYPE_CHECKING:
    from conftest import Api, Tokens

FAILED = {"screen": "runs", "name": "Failed today", "query": "status=failed&window=24h"}


@pytest.fixture
def mine(api: Api, tokens: Tokens) -> Api:
    """An administrator of a tenant that no other test has views in."""
    return replace(api, token=tokens.make(ADMIN, tenants=("viewers",)), tenant="viewers")


def views(api: Api, **query: str) -> list[dict[str, Any]]:
    answer = api.get("/api/views", **query)
    assert answer.status_code == 200, answer.json
    return list(answer.json["views"])


def test_a_view_is_saved_replaced_by_its_name_and_deleted(mine: Api) -> None:
    made = mine.post("/api/views", FAILED)
    assert (made.status_code, made.json["savedBy"]) == (201, "test")
    other = mine.post("/api/views", FAILED | {"screen": "audit", "query": "actor=alice"})
    assert other.status_code == 201, "each screen has its own names"
    again = mine.post("/api/views", FAILED | {"query": "status=failed"})
    assert (again.status_code, again.json["id"]) == (200, made.json["id"])
    assert [each["query"] for each in views(mine, screen="runs")] == ["status=failed"]
    for each in views(mine):
        assert mine.delete(f"/api/views/{each['id']}").json == {"id": each["id"], "deleted": True}
    assert views(mine) == []
    assert mine.delete(f"/api/views/{made.json['id']}").status_code == 404


def test_the_audit_says_what_a_view_was(mine: Api) -> None:
    made = mine.post("/api/views", FAILED).json
    mine.delete(f"/api/views/{made['id']}")
    deleted, saved = mine.get("/api/audit").json["entries"][:2]
    assert (saved["verb"], saved["object"], saved["after"]["runs"]) == (
        *("views.save_view", "Failed today"),
        FAILED["query"],
    )
    assert (deleted["object"], deleted["before"]["name"]) == (made["id"], "Failed today")


def test_a_tenant_sees_no_view_of_another_and_cannot_delete_it(mine: Api, api: Api, tokens: Tokens) -> None:
    made = mine.post("/api/views", FAILED).json
    other = replace(api, token=tokens.make(ADMIN))
    assert made["id"] not in {each["id"] for each in views(other)}
    assert other.delete(f"/api/views/{made['id']}").status_code == 404
    assert mine.delete(f"/api/views/{made['id']}").status_code == 200


def test_a_tenant_has_so_many_views_at_most(mine: Api) -> None:
    for number in range(MOST_VIEWS):
        assert mine.post("/api/views", FAILED | {"name": f"view {number}"}).status_code == 201
    refused = mine.post("/api/views", FAILED | {"name": "one more"})
    assert (refused.status_code, refused.json["code"]) == (400, "LIMIT_EXCEEDED")
    assert mine.post("/api/views", FAILED | {"name": "view 7", "query": "version=7"}).status_code == 200
    for each in views(mine):
        mine.delete(f"/api/views/{each['id']}")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("name", ""),
        ("name", " padded "),
        ("name", "two\nlines"),
        ("name", "x" * 81),
        ("query", ""),
        ("query", "a=b#c"),
        ("query", 'a="b'),
        ("query", "x" * 2_001),
        ("screen", "elsewhere"),
        ("colour", "red"),
    ],
)
def test_what_is_wrong_is_named(mine: Api, member: str, value: str) -> None:
    answer = mine.post("/api/views", FAILED | {member: value})
    assert answer.status_code == 400
    assert [each["field"] for each in answer.json["errors"]] == [member]


def test_a_reader_sees_views_and_saves_none(mine: Api, tokens: Tokens) -> None:
    reader = replace(mine, token=tokens.make(READ, tenants=("viewers",)))
    assert views(reader) == views(mine)
    assert reader.post("/api/views", FAILED).status_code == 403
