"""Rules of paths that make no URLs until somebody asks for one.

werkzeug writes and compiles two functions for each rule, which make URLs of it. Nobody calls them here, and
they were most of what it costs to build the application.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from werkzeug.routing import Rule


class PathRule(Rule):
    """A rule that compiles its functions for URLs with the first URL."""

    def _compile_builder(self, append_unknown: bool = True) -> Callable[..., tuple[str, str]]:
        compile_now = super()._compile_builder
        compiled: list[Callable[..., tuple[str, str]]] = []

        def build(rule: Rule, /, **values: Any) -> tuple[str, str]:
            if not compiled:
                compiled.append(compile_now(append_unknown))
            return compiled[0](rule, **values)

        return build
