"""Named views of a screen: its filters under a name, which all of the tenant see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlencode

from pipeweave.api.ui.verbs import VERBS, Field, Verb
from pipeweave.api.ui.view import View

VERBS.add(
    Verb(
        "views.save_view",
        "Save view",
        "Save this view",
        "The view is saved. All who may enter the tenant see it.",
        fields=(
            Field("name", "Name", about="A view with this name is replaced.", is_required=True),
            Field("screen", "Screen", "hidden"),
            Field("query", "Filters", "hidden"),
        ),
    )
)
VERBS.add(
    Verb(
        "views.delete_view",
        "Delete this view…",
        "Delete this view, for everybody?",
        "The view is deleted.",
        is_dangerous=True,
    )
)


def shown(view: View, screen: str, names: Sequence[str]) -> dict[str, Any]:
    """What the part `saved_views.html` shows.

    Args:
        names: the parameters of the address that a view consists of.
    """
    pairs = [(name, value) for name in names for value in view.lists.get(name, ()) if value]
    query = urlencode(pairs)
    views = view.ask("views.list_views", {"screen": screen})["views"]
    current = next((each for each in views if each["query"] == query), None)
    return {"views": views, "view_now": current, "view_query": query, "view_screen": screen}
