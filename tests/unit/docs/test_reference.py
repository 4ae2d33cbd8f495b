"""The tables in the documents say what the code says: settings, limits, options, endpoints, errors."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from support.pages import section, text_of

from pipeweave import size_limits
from pipeweave.api.http import Endpoint
from pipeweave.api.routes import ENDPOINTS
from pipeweave.authoring.context import Context
from pipeweave.authoring.task_spec import TaskSpec
from pipeweave.errors import PipeWeaveError
from pipeweave.settings import Settings
from pipeweave.settings.database_url import DATABASE_PARTS
from pipeweave.settings.table import TABLE


def test_the_table_of_settings_is_the_code() -> None:
    defaults = {each.name: each.default for each in dataclasses.fields(Settings)}
    expected = []
    for setting in TABLE:
        value = defaults[setting.field]
        text = str(value).lower() if isinstance(value, bool) else value
        shown = "" if value in (None, ()) else f"`{text}`"
        expected.append((f"`{setting.name}`", shown, setting.about))
    table = text_of("docs/configuration.md").split("## Names")[0]
    assert re.findall(r"^\| (`\w+`) \| (.*?) ?\| (.+) \|$", table, re.MULTILINE) == expected


def test_every_spelling_of_a_database_part_is_documented() -> None:
    page = text_of("docs/configuration.md")
    assert not [name for names in DATABASE_PARTS.values() for name in names if f"`{name}`" not in page]


def test_the_limits_in_the_documents_are_the_limits() -> None:
    shown = re.findall(
        r"^\| .+ \| ([\d,]+)( KiB| MiB| MB)? \|$", section("docs/tasks-and-pipelines.md", "Limits"), re.M
    )
    units = {"": 1, " KiB": 1024, " MiB": 1024**2, " MB": 10**6}
    assert [int(number.replace(",", "")) * units[unit] for number, unit in shown] == [
        size_limits.MAX_STEPS,
        size_limits.MAX_EDGES,
        size_limits.MAX_SPEC_BYTES,
        size_limits.MAX_MAP_ITEMS,
        size_limits.MAX_ITEM_BYTES,
        size_limits.MAX_TASK_RUNS_PER_RUN,
        size_limits.INLINE_BYTES,
        size_limits.MAX_OUTPUT_BYTES,
        size_limits.MAX_ASSETS,
        size_limits.MAX_ASSET_BYTES,
        size_limits.MAX_LOG_BYTES,
        size_limits.MAX_BODY_BYTES,
        size_limits.MAX_BATCH,
        size_limits.MAX_BATCH_TASK_RUNS,
        size_limits.MAX_METADATA_BYTES,
        size_limits.MAX_LOADED_BYTES,
        size_limits.MAX_KEY_CHARS,
    ]


def test_the_options_of_a_task_in_the_documents_are_its_options() -> None:
    table = section("docs/tasks-and-pipelines.md", "Options")
    shown = dict(re.findall(r"^\| `(\w+)` \| (.+?) \|", table, re.MULTILINE))
    fields = {each.name: each.default for each in dataclasses.fields(TaskSpec)}
    assert shown.keys() == fields.keys() - {"code_hash", "name"}
    for name, text in shown.items():
        if isinstance(fields[name], int | str):
            assert text.strip("`") == str(fields[name]), name


def test_the_attributes_of_the_context_in_the_documents_exist() -> None:
    table = section("docs/tasks-and-pipelines.md", "The context")
    names = re.findall(r"`(\w+)(?:\(.*?\))?`", "".join(re.findall(r"^\| (.+?) \|", table, re.MULTILINE)))
    assert len(names) > 10
    assert not [name for name in names if not hasattr(Context, name)]


def test_every_endpoint_is_documented_with_its_scope() -> None:
    rows = re.findall(r"^\| ([A-Z]+) \| `(/\S*)` \| (.+?) \| .+ \|$", text_of("docs/api.md"), re.MULTILINE)
    served = [(each.method, each.path, _scope(each)) for each in ENDPOINTS]
    assert sorted(rows) == sorted(served)


def _scope(endpoint: Endpoint) -> str:
    scopes = " or ".join(scope.removeprefix("orchestrator:") for scope in endpoint.scopes) or "open"
    return f"{scopes} of all" if endpoint.is_for_all else scopes


def test_every_error_is_documented_with_its_status_and_title() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (.+) \|$", text_of("docs/errors.md"), re.MULTILINE)
    known = {(each.code, str(each.status), _title(each)) for each in _errors(PipeWeaveError)}
    assert set(rows) == known


def _title(error: type[PipeWeaveError]) -> str:
    return (error.__doc__ or "").strip().splitlines()[0]


def _errors(base: type[PipeWeaveError]) -> Iterator[type[PipeWeaveError]]:
    for each in base.__subclasses__():
        if each.__module__ == "pipeweave.errors":
            yield each
            yield from _errors(each)
