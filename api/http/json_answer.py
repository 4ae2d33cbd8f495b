"""An answer with content that is known as a whole: it goes to the server as it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from flask import Response

# Without content: werkzeug leaves headers out.
_SPECIAL = (204, 304)


class JsonAnswer(Response):
    """JSON, complete with its length, that leads nowhere else.

    werkzeug looks through the headers of each answer once more before it leaves, for what streams, redirects
    and empty answers need.
    """

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        content = self.response
        is_plain = type(content) is list and len(content) == 1 and not self._on_close
        is_usual = self._status_code >= 200 and self._status_code not in _SPECIAL
        if not (is_plain and is_usual) or environ["REQUEST_METHOD"] == "HEAD":
            return super().__call__(environ, start_response)
        start_response(self._status, self.headers.to_wsgi_list())
        return content  # type: ignore[return-value]
