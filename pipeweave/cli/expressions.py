"""`pipeweave eval`: evaluate an expression."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from pipeweave.cli.support import id_arguments
from pipeweave.cli.support.connection import connected_if_configured, json_option, required
from pipeweave.cli.support.help_texts import examples
from pipeweave.cli.support.rendering import show_json
from pipeweave.cli.support.run_options import given_input, with_input
from pipeweave.spec.expressions.trial import parse_trial, try_expression

if TYPE_CHECKING:
    from pipeweave.client import Client


@click.command(
    "eval",
    epilog=examples(
        "pipeweave eval 'input.total > 1000' -i '{\"total\": 1200}'",
        "pipeweave eval 'steps.count.rows > 0' --run latest",
    ),
)
@click.argument("expression")
@with_input
@click.option("--run", "run_id", metavar="RUN", help="Take the values of this run.")
@click.option("--step", "step_id", metavar="STEP", help="Only the steps before this one have values.")
@json_option
@connected_if_configured
@click.pass_context
def evaluate(
    ctx: click.Context,
    client: Client | None,
    expression: str,
    inline: str | None,
    file: Any,
    run_id: str | None,
    step_id: str | None,
    as_json: bool,
) -> None:
    """Evaluate an expression.

    It takes an input, or the values of a run, which needs an orchestrator. Exits 1 if it has no value.
    """
    is_with_input = inline is not None or file is not None
    if is_with_input and run_id is not None:
        raise click.UsageError("give --input or --file, or --run")
    if step_id is not None and run_id is None:
        raise click.UsageError("--step needs --run")
    context = {"input": given_input(inline, file)} if is_with_input else None
    if run_id is not None:
        client = required(client)
        run_id = id_arguments.run(client, run_id)
    if client is not None:
        answer = client.evaluate(expression, context, run_id=run_id, step_id=step_id)
    else:
        answer = try_expression(parse_trial(expression), context or {}, now=datetime.now(UTC))
    error = answer["error"]
    if as_json:
        show_json(answer)
    elif error is None:
        show_json(answer["value"])
    else:
        click.echo(f"{error['code']}: {error['message']}" + (f" ({error['hint']})" if error["hint"] else ""))
    ctx.exit(0 if error is None else 1)
