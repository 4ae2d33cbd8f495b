"""Larger answers are packed for clients that can unpack them."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from conftest import Api

GZIP = {"Accept-Encoding": "gzip, br"}


def test_a_long_answer_is_packed_for_who_can_unpack_it(reader: Api) -> None:
    plain = reader.get("/api/openapi.json")
    packed = reader.http.get("/api/openapi.json", headers=GZIP)
    assert packed.headers["Content-Encoding"] == "gzip"
    assert "Accept-Encoding" in packed.headers["Vary"] and "Accept-Encoding" in plain.headers["Vary"]
    assert orjson.loads(gzip.decompress(packed.data)) == plain.json
    assert int(packed.headers["Content-Length"]) == len(packed.data) < len(plain.data) / 4


def test_a_short_answer_and_one_to_a_verb_stay_plain(api: Api, run_id: str) -> None:
    headers = {**api.headers, **GZIP}
    assert "Content-Encoding" not in api.http.get("/api/info", headers=headers).headers
    cancelled = api.http.post(f"/api/runs/{run_id}/cancel", json={"reason": "x" * 900}, headers=headers)
    assert cancelled.status_code == 200 and len(cancelled.data) > 1_024
    assert "Content-Encoding" not in cancelled.headers


def test_who_refuses_gzip_gets_none(reader: Api) -> None:
    answer = reader.http.get("/api/openapi.json", headers={"Accept-Encoding": "gzip;q=0"})
    assert "Content-Encoding" not in answer.headers
