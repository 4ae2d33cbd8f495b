"""Answers the requests with a plain head, in a thread, as gunicorn answers the others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import timedelta
from typing import Any

from gunicorn.glogging import Logger

from pipeweave import afterwards
from pipeweave.api.http.request_line import Submit
from pipeweave.api.http.streaming import SUBMIT, TAKE_OVER
from pipeweave.api.server.client_socket import ClientSocket
from pipeweave.api.server.plain_answer import PlainAnswer
from pipeweave.api.server.refusals import unreadable
from pipeweave.api.server.request_body import Application, head_of_stream


class PlainRequests:
    """What answers them.

    Args:
        application: of WSGI.
        submit: lets a thread of the server call a function.
        log: gunicorn's, of requests and of errors.
    """

    def __init__(self, application: Application, submit: Submit, log: Logger) -> None:
        self._application = application
        self._submit = submit
        self._log = log

    def answer(self, environ: dict[str, Any], sock: ClientSocket, *, may_keep: bool) -> bool:
        """Answer a request.

        Returns:
            Whether the client may send another one on the same connection.
        """
        is_kept = may_keep and environ.get("HTTP_CONNECTION", "").lower() != "close"
        answer = PlainAnswer(sock, is_kept=is_kept)
        environ[TAKE_OVER], environ[SUBMIT] = sock.take_over, self._submit
        try:
            self._serve(environ, answer, sock)
        except OSError as error:
            self._log.debug("the connection is broken: %s", error)
            return False
        except Exception as error:
            self._log.error("the request could not be served", exc_info=error)
            # What has left cannot be taken back: the client sees that the rest is missing.
            if not answer.is_begun:
                _say(sock, error)
            return False
        return answer.is_kept

    def _serve(self, environ: dict[str, Any], answer: PlainAnswer, sock: ClientSocket) -> None:
        begun = time.perf_counter()
        afterwards.begin()
        try:
            self._write(environ, answer, sock, begun)
        finally:
            afterwards.finish()

    def _write(self, environ: dict[str, Any], answer: PlainAnswer, sock: ClientSocket, begun: float) -> None:
        parts = self._application(environ, answer.start)
        if sock.outlet is not None:
            # The loop sends the rest of the answer.
            answer.is_kept = False
            sock.sendall(head_of_stream(answer.status, answer.headers))
            return
        try:
            for part in parts:
                answer.write(part)
            answer.finish()
        finally:
            spent = timedelta(seconds=time.perf_counter() - begun)
            self._log.access(answer, None, environ, spent)
            _close(parts)


def _close(parts: Iterable[bytes]) -> None:
    close: Callable[[], None] | None = getattr(parts, "close", None)
    if close is not None:
        close()


def _say(sock: ClientSocket, error: Exception) -> None:
    with suppress(OSError):
        sock.sendall(unreadable(error))
