"""Every command that a page, a hint or an error prints exists, with each of its options."""

from __future__ import annotations

import ast
import re
import shlex
from collections.abc import Iterator

import click
import pytest
from support.pages import ROOT

from pipeweave.api.ui import SCREENS  # noqa: F401  # the screens add their verbs
from pipeweave.api.ui.verbs import VERBS
from pipeweave.cli import main

PACKAGES = ("api", "orchestrator", "workers", "pipeweave")
# A command between backticks, in a text or in the parts of one around values.
_COMMAND = re.compile(r"`pipeweave ((?:[^`\\]|\\.)+)`")
# Stands for a value that is put into a text.
_HOLE = "\x00"
# Verbs that the command line does not have.
ONLY_BY_HTTP = {
    *("access.end_session", "tenants.put_tenant", "queue.queue_task"),
    *("views.save_view", "views.delete_view"),
}


def found(words: list[str]) -> tuple[click.Command, list[str]]:
    """The command that these words call, and the words after it."""
    command: click.Command = main
    while isinstance(command, click.Group) and words:
        inner = command.get_command(click.Context(command), words[0])
        if inner is None:
            break
        command, words = inner, words[1:]
    return command, words


def options(command: click.Command) -> set[str]:
    """The options of a command; of a group, those of the command that it runs without one, too."""
    names = {name for each in command.params for name in (*each.opts, *each.secondary_opts)}
    default = getattr(command, "default", None)
    if isinstance(command, click.Group) and default is not None:
        names |= options(command.commands[default])
    return names | {"--help", "-h", "--version"}


def faults(text: str, flags: tuple[str, ...] = ()) -> Iterator[str]:
    """What of a printed command does not exist."""
    words = text.replace(_HOLE, "X").split()
    command, rest = found(words)
    if command is main and words and not words[0].startswith(("-", "X", "COMMAND", "…")):
        yield f"`pipeweave {text}`: there is no such command"
        return
    if isinstance(command, click.Group) and rest and re.fullmatch(r"[a-z][a-z-]+", rest[0]):
        yield f"`pipeweave {text}`: {command.name} has no command {rest[0]}"
    given = [re.split("[=|]", each)[0] for each in rest if re.match(r"--?[a-z]", each)] + list(flags)
    for each in given:
        if each.rstrip("],)") not in options(command):
            yield f"`pipeweave {text}`: {command.name} has no option {each}"


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text of a module, with what is put into it left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            parts = [str(each.value) if isinstance(each, ast.Constant) else _HOLE for each in node.values]
            yield node.lineno, "".join(parts)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


@pytest.mark.parametrize("package", PACKAGES)
def test_commands_in_texts_of_the_code_exist(package: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {fault}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in texts(ast.parse(path.read_text()))
        for printed in _COMMAND.findall(" ".join(text.split()))
        for fault in faults(printed)
    ]
    assert not wrong


TEMPLATES = sorted((ROOT / "api" / "ui" / "templates").rglob("*.html"))
# In the markup, and in the texts of macros around values.
_SHOWN = re.compile(r"""(?:<code>|["\n])pipeweave ([^"<\n]*(?:" ~ [\w.]+ ~ "[^"<\n]*)*)""")


def test_commands_in_pages_exist() -> None:
    shown = [
        (path.name, re.sub(r"\{%.*?%\}|\{\{.*?\}\}", "", re.sub('" ~ [^"]* ~ "', "X", text)))
        for path in TEMPLATES
        for text in _SHOWN.findall(path.read_text())
    ]
    assert len(shown) > 15
    assert not [f"{name}: {fault}" for name, text in shown for fault in faults(text)]


def test_commands_of_the_dashboards_verbs_exist_with_the_options_of_their_fields() -> None:
    shown = [each for each in VERBS.rows.values() if each.command]
    without = {name for name, each in VERBS.rows.items() if not each.command}
    assert without == ONLY_BY_HTTP
    wrong = [
        fault
        for each in shown
        for fault in faults(
            re.sub(r"\{[^}]*\}", "X", each.command or "").removeprefix("pipeweave "),
            tuple(field.flag.split()[0] for field in each.fields if field.flag),
        )
    ]
    assert not wrong


def test_commands_of_the_dashboards_verbs_have_the_tenant_where_the_command_takes_it() -> None:
    shown = [each for each in VERBS.rows.values() if each.command]
    lines = [each.line({}, {}, "shop", dict(each.body)) for each in shown]
    wrong = [fault for line in lines for fault in faults(line.removeprefix("pipeweave "))]
    assert not wrong
    assert sum("--tenant shop" in line for line in lines) > 20


def test_a_token_is_made_in_a_terminal_with_what_the_dashboards_form_says() -> None:
    given = {
        "name": "ci",
        "scopes": "read\nworker",
        "tenants": "shop\n two ",
        "expiresAt": "2027-01-31T12:00:00Z",
    }
    line = VERBS.rows["access.create_token"].line({}, given, "other")
    command, rest = found(shlex.split(line)[1:])
    parsed = command.make_context("create", rest).params
    assert (parsed["name"], parsed["scopes"], parsed["tenants"]) == (
        "ci",
        ("read", "worker"),
        ("shop", "two"),
    )


def test_the_dashboard_revokes_what_a_token_made_where_that_is_wanted() -> None:
    verb, ids = VERBS.rows["access.revoke_token"], {"name": "tok_1"}
    assert verb.read({}) == {"children": False}
    assert verb.read({"children": "on"}) == {"children": True}
    assert verb.line(ids, {"children": "on"}, "shop") == "pipeweave token revoke tok_1 --children"


@pytest.mark.parametrize(
    "text", ["rerun prun_1 --from-step load", "dlq groups --nonsense", "no-such-command X", "dlq mend X"]
)
def test_what_does_not_exist_is_seen(text: str) -> None:
    assert list(faults(text))


@pytest.mark.parametrize("text", ["rerun prun_1 --from load", "dlq", "trigger X -i '{}'", "bulk --limit 5"])
def test_what_exists_is_fine(text: str) -> None:
    assert not list(faults(text))
