"""Defines the key of a run, by which its pipeline limits how many of its runs are under way, and start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pipeweave.rates import Rate, parse_rate
from pipeweave.spec.pipeline_spec import PipelineSpec
from pipeweave.spec.run_limits import CANCEL_OLD, SKIP, key_of


@dataclass(frozen=True, slots=True)
class RunKey:
    """The key of a run, and what its pipeline says of the runs with this key.

    Args:
        text: the key; ALL_RUNS of a pipeline that limits all its runs together.
        limit: runs of the key that are under way at once; None for any number.
        replaces: older runs of the key are cancelled for it.
        is_skipped: without room it does not start.
        rate: how many of them start in a time; None for any number.
    """

    text: str
    limit: int | None
    replaces: bool = False
    is_skipped: bool = False
    rate: Rate | None = None

    def to_row(self) -> dict[str, Any]:
        """The columns of the run's row."""
        return {
            "concurrency_key": self.text,
            "concurrency_limit": self.limit,
            "concurrency_replaces": self.replaces,
            **({} if self.rate is None else {"key_rate": self.rate.limit, "key_seconds": self.rate.seconds}),
        }


def run_key(spec: PipelineSpec, run_input: Any) -> RunKey | None:
    """The key of a run with this input; None if its pipeline does not limit its runs.

    Raises:
        InvalidInput: the input gives no key.
    """
    said, often = spec.concurrency, spec.rate_limit
    rate = None if often is None else parse_rate(often.rate)
    if said is not None:
        text = key_of(said.key, run_input, spec.variables, "concurrency.key")
        return RunKey(text, said.limit, said.on_limit == CANCEL_OLD, said.on_limit == SKIP, rate)
    if often is None:
        return None
    return RunKey(key_of(often.key, run_input, spec.variables, "rateLimit.key"), None, rate=rate)
