"""Say how an HTTP worker joins a stack that runs no tasks of its own."""

from __future__ import annotations

from collections.abc import Iterator

from pipeweave.up.options import UpOptions


def how_to_join(options: UpOptions) -> Iterator[str]:
    """The lines that `pipeweave up` prints for whoever starts an HTTP worker. They hold no secret."""
    yield "HTTP workers may join, in any language. One needs:"
    yield f"  PIPEWEAVE_ORCHESTRATOR_URL={options.url}"
    yield "  PIPEWEAVE_SECRET_KEY: `pipeweave services secret SERVICE` prints it"
    yield "  PIPEWEAVE_API_TOKEN: `pipeweave token create NAME --scope worker` makes one"
    yield f"  or tenant and token in the URL, for the Node SDK: {options.url}/w/{options.tenant}/TOKEN"
