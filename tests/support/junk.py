"""What somebody who can write to the broker may put into a queue: messages that are none, by their names."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from pipeweave import ids
from pipeweave.orchestrator.messaging.envelope import JOIN_TASK, RUN_TASK, encode

_NOTHING_FOLLOWS = {"callbacks": None, "errbacks": None, "chain": None, "chord": None}
_DEEP = 50_000


def _message() -> dict[str, Any]:
    """A message for a run that does not exist."""
    arguments = (ids.new_id().hex, [1], 1, -1, [])
    found: dict[str, Any] = json.loads(encode(RUN_TASK, "junk.1", arguments, "q", 6, 1_700_000_000.0))
    return found


def _raw(change: Callable[[dict[str, Any]], None]) -> bytes:
    message = _message()
    change(message)
    return json.dumps(message).encode()


def _with(place: str, name: str, value: Any) -> bytes:
    """A message with a header, a property, or (place "") a field of its own changed."""

    def change(message: dict[str, Any]) -> None:
        (message[place] if place else message)[name] = value

    return _raw(change)


def _without(place: str, name: str) -> bytes:
    def change(message: dict[str, Any]) -> None:
        del (message[place] if place else message)[name]

    return _raw(change)


def _body(content: bytes) -> bytes:
    return _with("", "body", base64.b64encode(content).decode())


def _called(*arguments: Any, task: str = RUN_TASK, keywords: Any = None) -> bytes:
    def change(message: dict[str, Any]) -> None:
        message["headers"]["task"] = task
        body = json.dumps([list(arguments), keywords or {}, _NOTHING_FOLLOWS])
        message["body"] = base64.b64encode(body.encode()).decode()

    return _raw(change)


_RUN = "0" * 32

JUNK: dict[str, bytes] = {
    "nothing": b"",
    "text": b"hello",
    "cut off": _raw(lambda message: None)[:200],
    "not UTF-8": b"\xff\xfe\x00\x80",
    "zeros": bytes(1_000),
    "null": b"null",
    "a number": b"7",
    "not a number": b"NaN",
    "a list": b"[]",
    "an empty object": b"{}",
    "deep lists": b"[" * _DEEP + b"]" * _DEEP,
    "deep objects": b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
    "deep headers": b'{"body": "", "headers": ' + b"[" * _DEEP + b"]" * _DEEP + b', "properties": {}}',
    "a megabyte": _with("", "more", "x" * 1_000_000),
    **{f"headers: {value!r}": _with("", "headers", value) for value in (None, [], "x", 1, {})},
    "no headers": _without("", "headers"),
    **{
        f"task: {value!r}": _with("headers", "task", value)
        for value in (None, [], {}, 1, True, "", "unknown", "celery.chord_unlock", "celery.backend_cleanup")
    },
    "no task": _without("headers", "task"),
    **{f"id: {value!r}": _with("headers", "id", value) for value in (None, [], {}, 1, "")},
    "no id": _without("headers", "id"),
    **{f"expires: {value!r}": _with("headers", "expires", value) for value in ([], {}, "soon", -1, 1e300)},
    **{f"eta: {value!r}": _with("headers", "eta", value) for value in ([], "soon", "9999-12-31T23:59:59", 1)},
    **{f"timelimit: {value!r}": _with("headers", "timelimit", value) for value in ("x", 1, [1], ["a", "b"])},
    **{f"retries: {value!r}": _with("headers", "retries", value) for value in ("x", [], 10**30)},
    **{f"shadow: {value!r}": _with("headers", "shadow", value) for value in ([], 1)},
    **{f"compression: {value!r}": _with("headers", "compression", value) for value in ("gzip", "x", [])},
    **{f"stamped_headers: {value!r}": _with("headers", "stamped_headers", value) for value in ("x", 1, [[]])},
    **{f"put_back: {value!r}": _with("headers", "put_back", value) for value in ("x", -1, [], 10**30)},
    **{f"properties: {value!r}": _with("", "properties", value) for value in (None, [], "x", {})},
    "no properties": _without("", "properties"),
    **{
        f"delivery_info: {value!r}": _with("properties", "delivery_info", value)
        for value in (None, [], "x", 1, {"exchange": [], "routing_key": {}})
    },
    **{f"delivery_tag: {value!r}": _with("properties", "delivery_tag", value) for value in (None, [], {})},
    "no delivery tag": _without("properties", "delivery_tag"),
    **{f"priority: {value!r}": _with("properties", "priority", value) for value in ("x", [], -1, 10**30)},
    **{f"reply_to: {value!r}": _with("properties", "reply_to", value) for value in ([], 1)},
    **{f"encoding: {value!r}": _with("properties", "body_encoding", value) for value in ("rot13", [], 1)},
    **{
        f"content type: {value!r}": _with("", "content-type", value)
        for value in (None, [], "application/x-python-serialize", "application/x-yaml", "x")
    },
    **{
        f"content encoding: {value!r}": _with("", "content-encoding", value)
        for value in (None, [], "klingon")
    },
    **{f"body: {value!r}": _with("", "body", value) for value in (None, 1, [], {}, "", "no base64!", "ü")},
    "no body": _without("", "body"),
    "a body that is no JSON": _body(b"hello"),
    "a body that is not UTF-8": _body(b"\xff\xfe"),
    "a pickled body": _body(b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00K\x01."),
    "a deep body": _body(b"[" * _DEEP + b"]" * _DEEP),
    **{f"a body of {text!r}": _body(text.encode()) for text in ("null", "{}", "[]", "[[], {}]", "[1, 2, 3]")},
    "no arguments": _called(),
    "one argument": _called(_RUN),
    "six arguments": _called(_RUN, [1], 1, -1, [], 6),
    "keywords": _called(_RUN, [1], 1, -1, [], keywords={"run_id": "x"}),
    **{
        f"run: {value!r}": _called(value, [1], 1, -1, [])
        for value in (None, 1, [], "x", _RUN.replace("0", "g"))
    },
    **{
        f"ordinals: {str(value)[:20]}": _called(_RUN, value, 1, -1, [])
        for value in (
            None,
            1,
            "12",
            [],
            [0],
            [-1],
            [2**24],
            [1.5],
            ["1"],
            [True],
            [[1]],
            list(range(1, 5_000)),
        )
    },
    **{f"attempt: {value!r}": _called(_RUN, [1], value, -1, []) for value in (None, 0, -1, "1", 1.5, 2**31)},
    **{f"part: {value!r}": _called(_RUN, [1], 1, value, []) for value in (None, -2, "1", [], 2**31)},
    **{
        f"joins: {str(value)[:20]}": _called(_RUN, [1], 1, 0, value)
        for value in (None, 1, "12", [-1], ["1"], [2**24], list(range(100_000)))
    },
    **{
        f"a join of {str(arguments)[:40]}": _called(*arguments, task=JOIN_TASK)
        for arguments in ((), (_RUN,), (_RUN, -1), (_RUN, "1"), (_RUN, 2**24), (None, 1), (_RUN, 1, 2))
    },
}
