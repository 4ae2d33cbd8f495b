"""Write the help of commands: groups of commands, and examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click


def examples(*lines: str) -> str:
    """The text below a command's help that shows how it is called."""
    shown = "\n".join(f"  {line}" for line in lines)
    return f"\b\nExamples:\n{shown}" if len(lines) > 1 else f"\b\nExample:\n{shown}"


def write_groups(
    formatter: click.HelpFormatter,
    groups: Mapping[str, Sequence[str]],
    summaries: Mapping[str, str],
) -> None:
    """Write the commands in groups, all summaries in one column.

    Args:
        formatter: where to write.
        groups: title of a group -> names of its commands.
        summaries: name of a command -> what it does, in one line.
    """
    width = max(map(len, summaries))
    for title, names in groups.items():
        with formatter.section(title):
            formatter.write_dl([(name.ljust(width), summaries[name]) for name in names])
