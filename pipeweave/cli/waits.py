"""`pipeweave signal | waiting | approve | reject | wait`: send signals, decide approvals, repair waits."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected, json_option
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.known_names import require_pipeline, require_tenant
from pipeweave.cli.support.lifetime import Lifetime
from pipeweave.cli.support.list_options import cursor_option, limit_option
from pipeweave.cli.support.rendering import field, moment, show_answer, show_list, when
from pipeweave.cli.support.run_options import given_input, json_value, with_input
from pipeweave.cli.support.tables import Column

if TYPE_CHECKING:
    from pipeweave.client import Client, Document

KINDS = ("timer", "signal", "approval", "callback", "poll", "child")

_form = click.option("-i", "--form", callback=json_value, help="The fields of the form, as JSON.")
_comment = click.option("--comment", help="Stored with the vote.")
_reason = click.option("--reason", help="Stored in the audit.")
_wait = click.argument("wait", metavar="WAIT")


@click.command(
    epilog=examples(
        "pipeweave signal prun_01m80arwk4e7 paid -i '{\"amount\": 12}'",
        "pipeweave signal --pipeline orders --run-token order-17 paid",
    )
)
@click.argument("words", nargs=-1, required=True, metavar="[RUN] NAME")
@with_input
@click.option("--pipeline", "pipeline_id", help="With --run-token: the pipeline of the run.")
@click.option("--run-token", help="The token with which the run was triggered, in place of RUN.")
@click.option("--once", metavar="KEY", help="Sending again with the same key sends nothing anew.")
@json_option
@connected
def signal(
    client: Client,
    words: tuple[str, ...],
    inline: str | None,
    file: Any,
    pipeline_id: str | None,
    run_token: str | None,
    once: str | None,
    as_json: bool,
) -> None:
    """Send a signal to a run.

    RUN is its id, the beginning of one, or `latest`. A step that waits for NAME goes on; if none does yet,
    the signal is kept.
    """
    payload = given_input(inline, file)
    is_by_token = run_token is not None and pipeline_id is not None
    if len(words) != (1 if is_by_token else 2) or (run_token is None) != (pipeline_id is None):
        raise click.UsageError("give RUN and NAME, or NAME with --pipeline and --run-token")
    name = words[-1]
    if is_by_token:
        sent = client.signal_by_token(str(pipeline_id), str(run_token), name, payload, once=once)
    else:
        sent = client.signal(id_arguments.run(client, words[0]), name, payload, once=once)
    show_answer(sent, as_json, _sent(sent, name))


def _sent(sent: Document, name: str) -> str:
    if sent["isRepeated"]:
        return f"{name} was sent before with this key"
    return f"{name} is sent and taken" if sent["taken"] else f"{name} is sent; no step waits for it yet"


@click.command(epilog=examples("pipeweave waiting --mine", "pipeweave waiting --kind signal --older-than 2d"))
@click.option("--kind", type=click.Choice(KINDS), help="Only waits of this kind.")
@click.option("--mine", is_flag=True, help="Only approvals that the token may decide.")
@click.option("--pipeline", "pipeline_id", help="Only waits of this pipeline's runs.")
@click.option("--older-than", metavar="DURATION", help="Only waits that began so long ago, such as 2d.")
@limit_option
@cursor_option
@json_option
@connected
def waiting(
    client: Client,
    kind: str | None,
    mine: bool,
    pipeline_id: str | None,
    older_than: str | None,
    limit: int,
    cursor: str | None,
    as_json: bool,
) -> None:
    """List the steps that wait for a time, a signal or people.

    The oldest come first.
    """
    page = client.waits(
        kind=kind, mine=mine, pipeline_id=pipeline_id, older_than=older_than, limit=limit, cursor=cursor
    )
    if not page.items and not as_json:
        require_tenant(client)
        require_pipeline(client, pipeline_id)
    cells = {
        Column("wait"): field("taskRunId"),
        Column("kind"): field("kind"),
        Column("for", wraps=True): _what,
        Column("pipeline", drop=2): field("pipelineId"),
        Column("step", drop=3): field("stepId"),
        moment("since (UTC)", drop=1): lambda each: when(each["since"]),
        moment("until (UTC)"): lambda each: when(each["wakesAt"] or each["timeoutAt"]),
    }
    show_list("waits", page, cells, as_json=as_json, none="Nothing waits.")


# What a wait waits for that has neither a title nor names of signals.
_COMES = {"timer": "its time", "callback": "a report", "poll": "an answer", "child": "a run"}


def _what(wait: Mapping[str, Any]) -> Any:
    return wait["title"] or wait["names"] or _COMES.get(wait["kind"], "")


@click.command(epilog=examples("pipeweave approve trun_01m80arwk4e7 -i '{\"amount\": 900}' --comment ok"))
@_wait
@_form
@click.option("--choice", help="Of an approval with options: one of them.")
@_comment
@json_option
@connected
def approve(
    client: Client, wait: str, form: Any, choice: str | None, comment: str | None, as_json: bool
) -> None:
    """Say yes to an approval.

    WAIT is the task run that waits, as `pipeweave waiting` shows it, or the beginning of its id.
    """
    id = id_arguments.task_run(client, wait)
    _show_state(client.approve(id, form, choice=choice, comment=comment), as_json)


@click.command(epilog=examples("pipeweave reject trun_01m80arwk4e7 --comment 'too expensive'"))
@_wait
@_form
@_comment
@json_option
@connected
def reject(client: Client, wait: str, form: Any, comment: str | None, as_json: bool) -> None:
    """Say no to an approval.

    WAIT is as for `pipeweave approve`. One no decides.
    """
    id = id_arguments.task_run(client, wait)
    _show_state(client.reject(id, form, comment=comment), as_json)


def _show_state(state: Document, as_json: bool) -> None:
    is_open = state["status"] == "waiting"
    said = "still waits for others to agree" if is_open else f"is {state['status']}"
    show_answer(state, as_json, f"{state['taskRunId']} {said}")


@click.group()
def wait() -> None:
    """Repair a step whose wait does not end.

    Give it a result, wake it, or give it more time.
    """


@wait.command(epilog=examples("pipeweave wait resolve trun_01m80arwk4e7 -i '{\"paid\": true}'"))
@_wait
@with_input
@click.option("--error", metavar="CODE", help="Let the step fail with this code instead.")
@click.option("--message", default="resolved by hand", show_default=True, help="Of the error.")
@_reason
@json_option
@connected
def resolve(
    client: Client,
    wait: str,
    inline: str | None,
    file: Any,
    error: str | None,
    message: str,
    reason: str | None,
    as_json: bool,
) -> None:
    """End a wait with an output or an error.

    It does not matter what it waits for.
    """
    output = given_input(inline, file)
    if error is not None and output is not None:
        raise click.UsageError("give an output or --error, not both")
    failing = None if error is None else (error, message)
    id = id_arguments.task_run(client, wait)
    _show_state(client.resolve_wait(id, output, error=failing, reason=reason), as_json)


@wait.command(epilog=examples("pipeweave wait wake trun_01m80arwk4e7"))
@_wait
@_reason
@json_option
@connected
def wake(client: Client, wait: str, reason: str | None, as_json: bool) -> None:
    """Let a step that sleeps complete now."""
    _show_state(client.wake(id_arguments.task_run(client, wait), reason=reason), as_json)


@wait.command(epilog=examples("pipeweave wait extend trun_01m80arwk4e7 2d"))
@_wait
@click.argument("timeout", type=Lifetime(), metavar="DURATION")
@_reason
@json_option
@connected
def extend(
    client: Client, wait: str, timeout: timedelta | datetime, reason: str | None, as_json: bool
) -> None:
    """Give a wait more time, or less.

    It ends so long from now on, or at a time, if nothing comes before.
    """
    if isinstance(timeout, datetime):
        timeout -= datetime.now(UTC)
    id = id_arguments.task_run(client, wait)
    answer = client.extend_wait(id, round(timeout.total_seconds() * 1000), reason=reason)
    until = when(answer["wakesAt"] or answer["timeoutAt"])
    show_answer(answer, as_json, f"{id} waits until {until} UTC")
