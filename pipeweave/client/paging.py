"""Read lists page by page: the base of the classes that hold the client's methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pipeweave.client.http import Transport
from pipeweave.client.models import Document, Page, document_of

# Rows per page when a method reads all pages.
PAGE_SIZE = 500


class Methods:
    """Methods that send requests.

    Args:
        http: sends them.
    """

    def __init__(self, http: Transport) -> None:
        self._http = http

    def _page(self, path: str, name: str, query: Mapping[str, Any]) -> Page:
        answer = document_of(self._http.get(path, query))
        return Page(list(answer[name]), answer.get("nextCursor"))

    def _all(self, path: str, name: str, filters: Mapping[str, Any]) -> Iterator[Document]:
        cursor = None
        while True:
            page = self._page(path, name, {**filters, "cursor": cursor})
            yield from page.items
            cursor = page.next_cursor
            if cursor is None:
                return
