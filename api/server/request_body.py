"""Requests as the application reads them: what goes wrong with a body on the way is an error of the request,
and an answer that is a stream is the loop's to send.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from gunicorn.http.errors import ParseException

from pipeweave.api.http.request_line import Submit
from pipeweave.api.http.streaming import SUBMIT, TAKE_OVER
from pipeweave.api.server.client_socket import ClientSocket
from pipeweave.api.server.deadlines import BODY_PLACES, BODY_S, OPEN_BODY_PLACES, UPLOAD_S
from pipeweave.errors import InvalidInput, RequestTimeout, TooManyRequests

# Of this process.
_PLACES = threading.Semaphore(BODY_PLACES)
_OPEN_PLACES = threading.Semaphore(OPEN_BODY_PLACES)

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def with_request_body(application: Application, submit: Submit) -> Application:
    """The application, reading bodies by RequestBody.

    Args:
        submit: lets a thread of the server call a function.
    """

    def served(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        client: ClientSocket | None = environ.get("gunicorn.socket")
        body = environ["wsgi.input"] = RequestBody(environ["wsgi.input"], client)
        if client is None:
            return application(environ, start_response)
        try:
            return taking_over(environ, start_response, client)
        finally:
            body.leave()

    def taking_over(
        environ: dict[str, Any], start_response: Callable[..., Any], client: ClientSocket
    ) -> Iterable[bytes]:
        environ[TAKE_OVER], environ[SUBMIT] = client.take_over, submit
        heads: list[tuple[str, list[tuple[str, str]]]] = []

        def keep(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            heads.append((status, headers))
            return start_response(status, headers, *exc_info)

        answer = application(environ, keep)
        if client.outlet is None:
            return answer
        # gunicorn would end the body, or number its parts.
        client.sendall(head_of_stream(*heads[-1]))
        raise TakenOver

    return served


class TakenOver(StopIteration):
    """The loop sends the rest of the answer. gunicorn takes it for the end of the connection's requests."""


def head_of_stream(status: str, headers: list[tuple[str, str]]) -> bytes:
    """The head of an answer without a length: it ends when the connection is closed."""
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in headers if name != "Content-Length"),
    ]
    if not any(name == "Connection" for name, _ in headers):
        lines.append("Connection: close")
    return "\r\n".join([*lines, "", ""]).encode("latin-1")


class RequestBody:
    """Reads as gunicorn's body.

    Args:
        body: gunicorn's.
        client: the socket of the client.

    Raises:
        RequestTimeout: the client did not send the body in time.
        TooManyRequests: as many threads as may wait for bodies do so already.
        InvalidInput: the chunked body is malformed.
    """

    def __init__(self, body: Any, client: ClientSocket | None = None) -> None:
        self._body = body
        self._client = client
        self._seconds = BODY_S
        self._places = _OPEN_PLACES
        self._place: threading.Semaphore | None = None
        self._is_bounded = client is not None and client.awaits_body

    def trust(self) -> None:
        """Wait for the body in a place of those whose token was checked."""
        self._places = _PLACES

    def leave(self) -> None:
        """Leave the place: the request is answered."""
        if self._place is not None:
            self._place.release()
            self._place = None

    def take_longer(self) -> None:
        """Wait UPLOAD_S for the rest of the body from now on, as it is an upload: the caller bounds these."""
        self._seconds = UPLOAD_S
        self._is_bounded = False
        self.leave()
        if self._client is not None:
            self._client.deadline = time.monotonic() + UPLOAD_S

    def read(self, size: int | None = None) -> bytes:
        self._take_place()
        with _errors_of_the_request(self._seconds):
            return bytes(self._body.read(size))

    def readline(self, size: int | None = None) -> bytes:
        self._take_place()
        with _errors_of_the_request(self._seconds):
            return bytes(self._body.readline(size))

    def readlines(self, size: int | None = None) -> list[bytes]:
        self._take_place()
        with _errors_of_the_request(self._seconds):
            return list(self._body.readlines(size))

    def _take_place(self) -> None:
        if not self._is_bounded or self._place is not None:
            return
        if not self._places.acquire(blocking=False):
            raise TooManyRequests(
                "too many large bodies arrive at the same time", hint="send it again in a few seconds"
            )
        self._place = self._places

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
