"""Reads options that give labels, each as `gpu=a100`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from pipeweave.labels import Labels, read_labels


def read_label_options(ctx: click.Context, param: Any, pairs: Sequence[str]) -> Labels | None:
    """The labels that an option was given, sorted by name; None for none.

    Raises:
        BadParameter: one of them is no label, a name has two values, or there are too many.
    """
    try:
        return read_labels(pairs) or None
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None
