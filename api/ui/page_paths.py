"""Says which requests the server's threads for pages answer."""

from __future__ import annotations

import re

# An export takes seconds: it goes to the threads of the API, where few are written at once.
_PAGES = re.compile(r"/ui(?!/[^/]+/export/)(/|\Z)")


def is_page(path: str) -> bool:
    """Whether a path that is only read is that of a page of the dashboard, or of a file of it."""
    return _PAGES.match(path) is not None
