"""Bodies as the application reads them: what goes wrong on the way is an error of the request."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gunicorn.http.errors import ParseException

from pipeweave.api.server.deadlines import BODY_S
from pipeweave.errors import InvalidInput, RequestTimeout

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def with_request_body(application: Application) -> Application:
    """The application, reading bodies by RequestBody."""

    def served(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        environ["wsgi.input"] = RequestBody(environ["wsgi.input"])
        return application(environ, start_response)

    return served


class RequestBody:
    """Reads as gunicorn's body.

    Raises:
        RequestTimeout: the client did not send the body in time.
        InvalidInput: the chunked body is malformed.
    """

    def __init__(self, body: Any) -> None:
        self._body = body

    def read(self, size: int | None = None) -> bytes:
        with _errors_of_the_request():
            return bytes(self._body.read(size))

    def readline(self, size: int | None = None) -> bytes:
        with _errors_of_the_request():
            return bytes(self._body.readline(size))

    def readlines(self, size: int | None = None) -> list[bytes]:
        with _errors_of_the_request():
            return list(self._body.readlines(size))

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.readline, b"")


@contextmanager
def _errors_of_the_request() -> Iterator[None]:
    try:
        yield
    except TimeoutError as error:
        raise RequestTimeout(f"the body did not arrive within {BODY_S:.0f} seconds") from error
    except ParseException as error:
        raise InvalidInput("the chunked body is malformed") from error
