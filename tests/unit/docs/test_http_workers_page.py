"""The page about HTTP workers says what the code does: its test vectors, members and codes."""

from __future__ import annotations

import inspect
import json
import re

import pytest
from support.pages import section, text_of

from pipeweave import HttpWorker, signatures
from pipeweave.api.contract.requests import FlatTask, RegisterRequest
from pipeweave.api.contract.worker_reports import CompletionReport
from pipeweave.storage import tokens

PAGE = text_of("docs/http-workers.md")
SECRET = "0123456789abcdef" * 4


def test_the_signature_on_the_page_is_right() -> None:
    (body,) = re.findall(r"^\$ body='(.+)'$", PAGE, re.MULTILINE)
    (mac,) = re.findall(r"^SHA2-256\(stdin\)= ([0-9a-f]{64})$", PAGE, re.MULTILINE)
    assert signatures.sign(SECRET, 1_700_000_000, "/tasks/resize", body.encode()) == f"t=1700000000,v1={mac}"


@pytest.mark.parametrize("place", [0, 1], ids=["sdk", "pbkdf2"])
def test_the_storage_tokens_on_the_page_are_right(place: int) -> None:
    found = re.findall(r"^token   (\S+)$", PAGE, re.MULTILINE)
    (content,) = re.findall(r"^content (\{.+\})$", PAGE, re.MULTILINE)
    assert tokens.open_sealed(found[place], SECRET, now=1_700_000_001) == json.loads(content)


def test_the_page_names_every_member_of_a_report() -> None:
    names = {each.alias or name for name, each in CompletionReport.model_fields.items()}
    missing = {each for each in names - {"duration", "outputSize"} if f"`{each}`" not in PAGE}
    assert not missing


def test_the_page_names_every_member_of_a_registration() -> None:
    names = {each.alias or name for name, each in RegisterRequest.model_fields.items()}
    assert not {each for each in names - {"kind"} if f"`{each}`" not in PAGE}


def test_the_defaults_of_a_task_on_the_page_are_right() -> None:
    known = {each.alias or name: each.default for name, each in FlatTask.model_fields.items()}
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \|", PAGE, re.MULTILINE)
    assert len(rows) >= 5
    for name, default in rows:
        if name != "idempotencyTTL":
            assert known[name] == int(default), name


def test_the_table_of_arguments_in_python_is_the_signature_with_its_docstring() -> None:
    assert not list(inspect.signature(HttpWorker.run).parameters)[1:], "the page says that there are none"
    about = str(inspect.getdoc(HttpWorker)).split("Args:\n")[1].split("\n\n")[0]
    meanings = dict(re.findall(r"^    (\w+): (.+(?:\n {8}.+)*)", about, re.MULTILINE))
    expected = []
    for name, each in inspect.signature(HttpWorker).parameters.items():
        value = json.dumps(each.default) if isinstance(each.default, str) else each.default
        shown = "" if value in (None, each.empty) else f"`{value}`"
        expected.append((name, shown, " ".join(meanings.pop(name).replace("`", "").split())))
    rows = re.findall(
        r"^\| `(\w+)` \| (.*?) ?\| (.+) \|$", section("docs/http-workers.md", "In Python"), re.MULTILINE
    )
    assert [(name, shown, about.replace("`", "")) for name, shown, about in rows] == expected
    assert not meanings
