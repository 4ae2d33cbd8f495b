"""Bodies as the application reads them: what goes wrong on the way is an error of the request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gunicorn.http.errors import ParseException

from pipeweave.api.server.client_socket import ClientSocket
from pipeweave.api.server.deadlines import BODY_S, UPLOAD_S
from pipeweave.errors import InvalidInput, RequestTimeout

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def with_request_body(application: Application) -> Application:
    """The application, reading bodies by RequestBody."""

    def served(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"] = RequestBody(environ["wsgi.input"], environ.get("gunicorn.socket"))
        return application(environ, start_response)

    return served


class RequestBody:
    """Reads as gunicorn's body.

    Args:
        body: gunicorn's.
        client: the socket of the client.

    Raises:
        RequestTimeout: the client did not send the body in time.
        InvalidInput: the chunked body is malformed.
    """

    def __init__(self, body: Any, client: ClientSocket | None = None) -> None:
        self._body = body
        self._client = client
        self._seconds = BODY_S

    def take_longer(self) -> None:
        """Wait UPLOAD_S for the rest of the body from now on, as it is an upload."""
        self._seconds = UPLOAD_S
        if self._client is not None:
            self._client.deadline = time.monotonic() + UPLOAD_S

    def read(self, size: int | None = None) -> bytes:
        with _errors_of_the_request(self._seconds):
            return bytes(self._body.read(size))

    def readline(self, size: int | None = None) -> bytes:
        with _errors_of_the_request(self._seconds):
            return bytes(self._body.readline(size))

    def readlines(self, size: int | None = None) -> list[bytes]:
        with _errors_of_the_request(self._seconds):
            return list(self._body.readlines(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


@contextmanager
def _errors_of_the_request(seconds: float) -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise RequestTimeout(f"the body did not arrive within {seconds:.0f} seconds") from error
    except ParseException as error:
        raise InvalidInput("the chunked body is malformed") from error
