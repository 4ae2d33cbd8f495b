"""Makes the Context of a call in a box: what it holds came with the call, everything else is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pipeweave.authoring import Context
from pipeweave.box.boxed_files import BoxedFiles
from pipeweave.box.channel import Channel
from pipeweave.errors import NotFound
from pipeweave.masking import Masks

PLAIN_FIELDS = (
    *("run_id", "task_run_id", "task_id", "pipeline_id", "step_id", "attempt", "input", "params"),
    *("previous_attempts", "item", "map_index", "map_name", "code_version", "code_hash", "tenant"),
    *("triggered_by", "trace_id"),
)
"""The members of a Context that are sent with the call."""


def context_of(channel: Channel, sent: Mapping[str, Any], tmp: Path | None) -> Context:
    """The Context of a call."""
    return Context(
        **{name: sent[name] for name in PLAIN_FIELDS if name in sent},
        upstream=AskedOutputs(channel),
        on_progress=lambda percent, message: channel.say({"progress": percent, "message": message}),
        files=BoxedFiles(channel, tmp),
        cancelled=lambda: bool(channel.ask("is_cancelled")),
        secrets=AskedSecrets(channel),
        make_callback_url=lambda: str(channel.ask("callback_url")),
    )


class AskedSecrets:
    """The secrets of the call, each asked for; the parent hides them in all that the box says."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self.masks = Masks()

    def get(self, name: str) -> str:
        value = str(self._channel.ask("secret", name=name))
        self.masks.add(value)
        return value


class AskedOutputs(Mapping[str, Any]):
    """The outputs of the steps before, each asked for at its first use."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._names: list[str] | None = None
        self._outputs: dict[str, Any] = {}

    def __getitem__(self, step_id: str) -> Any:
        if step_id not in self._outputs:
            try:
                self._outputs[step_id] = self._channel.ask("upstream", step=step_id)
            except NotFound:
                raise KeyError(step_id) from None
        return self._outputs[step_id]

    def __iter__(self) -> Iterator[str]:
        if self._names is None:
            self._names = self._channel.ask("upstream_names")
        return iter(self._names)

    def __len__(self) -> int:
        return sum(1 for _ in self)
