"""The templates of the dashboard, compiled once for all applications of a process."""

from __future__ import annotations

import functools
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from pipeweave.api.ui import words
from pipeweave.api.ui.charts import sparkline
from pipeweave.api.ui.graphs import graph_of
from pipeweave.api.ui.kept_parts import kept
from pipeweave.api.ui.static_files import static_files
from pipeweave.api.ui.tracebacks import traced
from pipeweave.api.ui.verbs import VERBS
from pipeweave.spec import WITH_ITEMS


@functools.cache
def environment() -> Environment:
    """What renders the templates, with the filters and the functions that they use."""
    made = Environment(
        loader=FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        auto_reload=False,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {**words.FILTERS, "traced": traced}
    made.tests["engine"] = words.is_engine
    made.globals |= {"static": static_files().url, "verbs": VERBS.rows, "graph_of": graph_of}
    made.globals |= {"sparkline": sparkline, "kept": kept, "WITH_ITEMS": WITH_ITEMS}
    return made
