"""What is wrong with a completion report, with what it names in storage, and with a heartbeat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from pipeweave.authoring import read_literal
from pipeweave.conformance.objects import Objects
from pipeweave.errors import InvalidAsyncResult

LEVELS = ("debug", "info", "warn", "error")
_LOG_MEMBERS = ("timestamp", "level", "runId", "message")
# More than this many lines of a log are not looked at.
_MOST_LINES = 1_000


def faults(report: Any, run_id: str, allowed_next: Sequence[str]) -> list[str]:
    """Everything for which the orchestrator refuses a report, each as a sentence.

    Args:
        report: its JSON.
        run_id: the dispatch id.
        allowed_next: the successors that the task registered.
    """
    if not isinstance(report, dict):
        return ["the body must be a JSON object"]
    match report.get("status"):
        case "success":
            return [*_success_faults(report, run_id), *_choice_faults(report, allowed_next)]
        case "failed":
            return list(_failure_faults(report))
        case "pending":
            return list(_pending_faults(report))
    return [f"status must be success, failed or pending, and is {report.get('status')!r}"]


def output_faults(report: Mapping[str, Any], objects: Objects) -> list[str]:
    """What is wrong with the output that a report names."""
    if "outputPath" not in report:
        return []
    content = objects.get(str(report["outputPath"]))
    if content is None:
        return [f"there is no object at outputPath {report['outputPath']!r}"]
    text = content.decode(errors="replace")
    if not _is_json(text):
        return ["the output is not JSON"]
    # The original SDK counts UTF-16 units.
    sizes = {len(content), len(text), len(text.encode("utf-16-le")) // 2}
    size = report.get("outputSize", len(content))
    return [] if size in sizes else [f"outputSize is {size}, and the object has {len(content)} bytes"]


def asset_faults(report: Mapping[str, Any], run_id: str, objects: Objects) -> list[str]:
    """What is wrong with the assets that a report names."""
    assets = report.get("assets") or {}
    if not isinstance(assets, dict):
        return ["assets must be an object of key to {path, size, type}"]
    return [fault for key, asset in assets.items() for fault in _asset_faults(key, asset, run_id, objects)]


def log_faults(content: bytes, run_id: str) -> list[str]:
    """What is wrong with a stored log: JSON lines."""
    line_faults = []
    for number, line in enumerate(content.decode(errors="replace").split("\n")[:_MOST_LINES], 1):
        if line and (fault := _line_fault(line, run_id)):
            line_faults.append(f"line {number} {fault}")
    return line_faults


def heartbeat_faults(body: Any) -> list[str]:
    """What is wrong with a heartbeat or a report of progress."""
    if not isinstance(body, dict):
        return ["the body must be a JSON object, which may be empty"]
    progress = body.get("progress")
    if progress is not None and not (_is_number(progress) and 0 <= progress <= 100):
        return [f"progress must be a number from 0 to 100, and is {str(progress)[:40]!r}"]
    return []


def _success_faults(report: Mapping[str, Any], run_id: str) -> Iterator[str]:
    path = report.get("outputPath")
    if path is None and "output" not in report:
        yield "a success needs outputPath, or output with the JSON itself"
    elif path is not None and path != f"runs/{run_id}/output.json":
        yield f"outputPath must be runs/{run_id}/output.json, and is {str(path)[:80]!r}"
    size = report.get("outputSize")
    if size is not None and not (_is_number(size) and size >= 0):
        yield "outputSize must be a number of bytes"
    logs = report.get("logsPath")
    if logs is not None and logs != f"runs/{run_id}/logs.jsonl":
        yield f"logsPath must be runs/{run_id}/logs.jsonl, and is {str(logs)[:80]!r}"


def _choice_faults(report: Mapping[str, Any], allowed_next: Sequence[str]) -> Iterator[str]:
    chosen = report.get("selectedNext")
    if chosen is None:
        return
    if not isinstance(chosen, list) or not all(isinstance(each, str) for each in chosen):
        yield "selectedNext must be a list of task ids"
    elif strange := [each for each in chosen if each not in allowed_next]:
        yield f"selectedNext names {strange[0]!r}, which is not in the registered allowedNext"


def _failure_faults(report: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(report.get("error"), str) or not report["error"]:
        yield "a failure needs error, a text that says what happened"
    for name, kind in (("errorCode", str), ("stack", str), ("retryable", bool)):
        if not isinstance(report.get(name, kind()), kind):
            yield f"{name} must be {'true or false' if kind is bool else 'a text'}"


def _pending_faults(report: Mapping[str, Any]) -> Iterator[str]:
    try:
        read_literal(report)
    except InvalidAsyncResult as error:
        yield f"of a pending attempt, {error.detail}"
    if report.get("selectedNext") is not None:
        yield "a pending attempt has no selectedNext: it has no result yet"


def _asset_faults(key: str, asset: Any, run_id: str, objects: Objects) -> Iterator[str]:
    if not isinstance(asset, dict) or not {"path", "size", "type"} <= asset.keys():
        yield f"the asset {key!r} needs path, size and type"
        return
    if asset["path"] != f"runs/{run_id}/assets/{key}":
        yield f"the path of the asset {key!r} must be runs/{run_id}/assets/{key}"
        return
    content = objects.get(asset["path"])
    if content is None:
        yield f"there is no object at the path of the asset {key!r}"
    elif asset["size"] != len(content):
        yield f"the asset {key!r} has {len(content)} bytes, and the report says {asset['size']}"


def _line_fault(line: str, run_id: str) -> str | None:
    try:
        document = orjson.loads(line)
    except orjson.JSONDecodeError:
        return "is not JSON"
    if not isinstance(document, dict):
        return "is not a JSON object"
    if missing := [name for name in _LOG_MEMBERS if name not in document]:
        return f"lacks {', '.join(missing)}"
    if document["level"] not in LEVELS:
        return f"has the level {str(document['level'])[:20]!r} instead of {', '.join(LEVELS)}"
    return None if document["runId"] == run_id else "names another runId"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_json(text: str) -> bool:
    try:
        orjson.loads(text)
    except orjson.JSONDecodeError:
        return False
    return True
