"""The loop of one server process, built on gunicorn's worker with threads.

A connection goes round: the loop takes a request in (stage `head`), a thread answers it, the loop hands out
what the client has not taken (`answer`), and then the connection waits for the next request, or is read until
the client closes it (`end`). If the client has taken all of its answer, the thread goes on with the next
request, if that is there, or lets the connection wait, and the loop is not woken
(docs/decisions/0126-threads-that-go-on.md).

gunicorn parses requests, closes idle connections and stops the process. Left to itself, it would occupy a
thread, and at the end the loop, for as long as the client likes.
"""

from __future__ import annotations

import selectors
import socket
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from pipeweave.api.http.outlet import Outlet
from pipeweave.api.server import one_reading
from pipeweave.api.server.connection import ClientConnection
from pipeweave.api.server.deadlines import ANSWER_S, BODY_S, HEAD_S, LINGER_S, STALL_S, STREAM_STALL_S
from pipeweave.api.server.page_threads import PageThreads
from pipeweave.api.server.plain_requests import PlainRequests
from pipeweave.api.server.refusals import unreadable
from pipeweave.api.server.request_body import with_request_body
from pipeweave.api.server.request_threads import RequestThreads
from pipeweave.errors import RequestTimeout, TooManyRequests
from pipeweave.size_limits import MAX_BODY_BYTES

# Threads that answer nothing but /health, so that it does not wait for the others.
HEALTH_THREADS = 2
HEALTH = "/health"
# Seconds between two looks for connections that have waited too long.
SWEEP_S = 0.5
# Seconds between two signs to gunicorn's parent that the loop goes on.
SIGN_S = 1.0
_READ_BYTES = 65_536


class ServerWorker(ThreadWorker):
    """A server process whose threads do not wait for clients, but for bodies whose sender has a token."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._waiting: set[ClientConnection] = set()
        self._streams: set[ClientConnection] = set()
        # Streams for which something waits.
        self._woken: deque[tuple[ClientConnection, Outlet]] = deque()
        self._is_pumping = False
        # What ends the streams and claims no further steps, when this process stops.
        self.on_exit: tuple[Callable[[], None], ...] = ()
        self._next_sweep = self._next_sign = 0.0
        # Held while a connection becomes idle, which threads do, or is idle no more.
        self._idle_lock = threading.Lock()

    def get_thread_pool(self) -> Any:
        """The threads. Called after the fork."""
        self._health_threads = RequestThreads(HEALTH_THREADS, "health")
        self._page_threads = PageThreads()
        config: Any = self.cfg
        self._threads = RequestThreads(config.threads, "request")
        return self._threads

    def load_wsgi(self) -> None:
        """Load the application."""
        super().load_wsgi()
        application: Any = self.wsgi
        self.on_exit = (
            application.extensions["pipeweave.hub"].close,
            application.extensions["pipeweave.live"].close,
            application.extensions["pipeweave.stop_dispatching"],
        )
        self._is_page: Callable[[str], bool] = application.extensions["pipeweave.is_page"]

        self._plain_requests = PlainRequests(self.wsgi, self._threads.submit, self.log)
        self.wsgi = with_request_body(self.wsgi, self._threads.submit)

    # --- called by gunicorn's loop ------------------------------------------------------------------------

    def accept(self, listener: socket.socket) -> None:
        """Accept a connection; when there are too many, close the one that has waited longest."""
        try:
            accepted, address = listener.accept()
        except BlockingIOError:
            return
        except OSError as error:
            # The client has left already, or this process has too many open files.
            self.log.debug("a connection could not be accepted: %s", error)
            self._close_longest_waiting()
            return
        self.nr_conns += 1
        if self.nr_conns >= self.worker_connections:
            self._close_longest_waiting()
        conn = ClientConnection(self.cfg, accepted, address, listener.getsockname())
        self._guarded(self._begin_request, conn)

    def on_client_socket_readable(self, conn: ClientConnection, client: socket.socket) -> None:
        """Take the next request of an idle connection."""
        # An earlier event of the same turn may have closed it, and a thread may be about to make it idle.
        with self._idle_lock:
            is_idle = conn in self.keepalived_conns
        if is_idle:
            self._forget_idle(conn)
            self._guarded(self._begin_request, conn)

    def _finish(self, conn: ClientConnection) -> None:
        """Go on with a connection whose request a thread has answered."""
        if conn.is_page:
            self._page_threads.done()
        self._guarded(self._begin_answer, conn)

    def notify(self) -> None:
        """Tell gunicorn's parent that the loop goes on: not at each turn, because it waits for a minute."""
        now = time.monotonic()
        if now >= self._next_sign:
            self._next_sign = now + SIGN_S
            gunicorn: Any = super()
            gunicorn.notify()

    def murder_keepalived(self, force: bool = False) -> None:
        """Close connections that were idle for too long. Called at each turn of the loop."""
        gunicorn: Any = super()
        with self._idle_lock:
            gunicorn.murder_keepalived(force)

    def _cap_keepalive(self, deadline: float) -> None:
        gunicorn: Any = super()
        with self._idle_lock:
            gunicorn._cap_keepalive(deadline)

    def murder_pending(self) -> None:
        """Give up connections that have waited too long. Called at each turn of the loop."""
        now = time.monotonic()
        if now < self._next_sweep:
            return
        self._next_sweep = now + SWEEP_S
        for conn in [each for each in self._waiting if self._is_late(each, now)]:
            self._forget(conn)
            self._guarded(self._give_up, conn)
        for conn in [each for each in self._streams if each.sock.left and each.until <= now]:
            self._close(conn)

    def handle_exit(self, sig: Any, frame: Any) -> None:
        """Stop: finish what is under way, and end the streams."""
        super().handle_exit(sig, frame)
        for stop in self.on_exit:
            self.method_queue.defer(stop)

    def enqueue_req(self, conn: ClientConnection) -> None:
        """Let a thread answer the request of a connection."""
        path = conn.read_path
        threads: Any = self._health_threads if path == HEALTH else self._threads
        conn.is_page = path is not None and self._is_page(path)
        if conn.is_page:
            if not self._page_threads.has_room:
                conn.is_page = False
                self._refuse(
                    conn, TooManyRequests("too many pages are asked for", hint="try again in a few seconds")
                )
                return
            threads = self._page_threads
        conn.hand_over()
        threads.submit(partial(self._answer, conn, goes_on=threads is self._threads))

    # --- the stages of a connection, in the loop ----------------------------------------------------------

    def _begin_request(self, conn: ClientConnection) -> None:
        conn.begin("head", HEAD_S)
        self._take_in(conn)

    def _take_in(self, conn: ClientConnection) -> None:
        while not conn.is_request and conn.excess() is None:
            data = conn.sock.take(_READ_BYTES)
            if data is None:
                self._wait(conn, selectors.EVENT_READ, self._take_in)
                return
            if not data:
                self._close(conn)
                return
            conn.add(data)
        if error := conn.excess():
            self._refuse(conn, error)
        else:
            self.enqueue_req(conn)

    def _refuse(self, conn: ClientConnection, error: Exception) -> None:
        self.log.info("refused request: %s", type(error).__name__)
        conn.is_kept = False
        conn.sock.sendall(unreadable(error))
        self._begin_answer(conn)

    def _begin_answer(self, conn: ClientConnection) -> None:
        conn.begin("answer", STALL_S)
        self._hand_out(conn)

    def _hand_out(self, conn: ClientConnection) -> None:
        if conn.sock.flush():
            conn.until = min(time.monotonic() + STALL_S, conn.since + ANSWER_S)
        if conn.sock.unsent:
            self._wait(conn, selectors.EVENT_WRITE, self._hand_out)
        elif conn.sock.outlet is not None and conn.stage == "answer":
            self._begin_stream(conn, conn.sock.outlet)
        elif conn.is_kept:
            self._keep(conn)
        else:
            self._begin_end(conn)

    def _keep(self, conn: ClientConnection) -> None:
        conn.add(conn.take_back())
        if conn.arrived:
            self._begin_request(conn)
        else:
            self._keep_idle(conn)

    def _keep_idle(self, conn: ClientConnection) -> None:
        conn.begin("idle", LINGER_S)
        conn.set_timeout()
        ready = partial(self.on_client_socket_readable, conn)
        with self._idle_lock:
            if not self.alive:
                conn.timeout = min(conn.timeout, conn.until)
            self.poller.register(conn.sock, selectors.EVENT_READ, ready)
            self.keepalived_conns.append(conn)

    def _begin_end(self, conn: ClientConnection) -> None:
        # To close at once would destroy the answer if the client has sent what nobody has read.
        with suppress(OSError):
            conn.sock.shutdown(socket.SHUT_WR)
        conn.begin("end", LINGER_S)
        self._drain(conn)

    def _drain(self, conn: ClientConnection) -> None:
        data = conn.sock.take(_READ_BYTES)
        conn.drained += len(data or b"")
        if data == b"" or conn.drained > MAX_BODY_BYTES:
            self._close(conn)
        else:
            self._wait(conn, selectors.EVENT_READ, self._drain)

    # --- streams, in the loop -----------------------------------------------------------------------------

    def _begin_stream(self, conn: ClientConnection, outlet: Outlet) -> None:
        conn.begin("stream", STREAM_STALL_S)
        self._streams.add(conn)
        conn.watched_for = selectors.EVENT_READ
        self.poller.register(conn.sock, selectors.EVENT_READ, partial(self._on_stream, conn, outlet))
        outlet.attach(partial(self._wake_stream, conn, outlet))
        if read_ahead := conn.take_back():
            outlet.received(read_ahead)

    def _on_stream(self, conn: ClientConnection, outlet: Outlet, _: object) -> None:
        # An earlier event of the same turn may have closed it.
        if conn in self._streams:
            self._guarded(partial(self._listen, outlet), conn)
            self._pump(conn, outlet)

    def _listen(self, outlet: Outlet, conn: ClientConnection) -> None:
        data = conn.sock.take(_READ_BYTES)
        if data == b"":
            self._close(conn)
        elif data:
            outlet.received(data)

    def _wake_stream(self, conn: ClientConnection, outlet: Outlet) -> None:
        """Have the loop send what waits; called by threads. The loop wakes once for all that wait by then."""
        self._woken.append((conn, outlet))
        if not self._is_pumping:
            self._is_pumping = True
            self.method_queue.defer(self._pump_woken)

    def _pump_woken(self) -> None:
        # Before it looks: whoever comes afterwards wakes it again.
        self._is_pumping = False
        for _ in range(len(self._woken)):
            self._pump(*self._woken.popleft())

    def _pump(self, conn: ClientConnection, outlet: Outlet) -> None:
        if conn in self._streams:
            self._guarded(partial(self._send_on, outlet), conn)

    def _send_on(self, outlet: Outlet, conn: ClientConnection) -> None:
        """Send what waits; what the client does not take stays in the outlet, which is bounded."""
        if not conn.sock.left:
            conn.sock.add(outlet.take())
            conn.until = time.monotonic() + STREAM_STALL_S
        if conn.sock.flush():
            conn.until = time.monotonic() + STREAM_STALL_S
        if conn.sock.left:
            self._watch(conn, outlet, selectors.EVENT_READ | selectors.EVENT_WRITE)
        elif outlet.is_over:
            self._streams.discard(conn)
            self.poller.unregister(conn.sock)
            self._begin_end(conn)
        else:
            self._watch(conn, outlet, selectors.EVENT_READ)
            # More may have come while this was sent.
            if outlet.has_parts:
                self._wake_stream(conn, outlet)

    def _watch(self, conn: ClientConnection, outlet: Outlet, events: int) -> None:
        if events != conn.watched_for:
            conn.watched_for = events
            self.poller.modify(conn.sock, events, partial(self._on_stream, conn, outlet))

    # --- waiting, in the loop -----------------------------------------------------------------------------

    def _wait(self, conn: ClientConnection, event: int, then: Callable[[ClientConnection], None]) -> None:
        self._waiting.add(conn)
        self.poller.register(conn.sock, event, partial(self._wake, conn, then))

    def _wake(self, conn: ClientConnection, then: Callable[[ClientConnection], None], _: object) -> None:
        # An earlier event of the same turn may have closed it.
        if conn in self._waiting:
            self._forget(conn)
            self._guarded(then, conn)

    def _is_late(self, conn: ClientConnection, now: float) -> bool:
        # A process that stops waits no longer for requests than for idle connections to close.
        until = conn.until if self.alive or conn.stage != "head" else conn.since + LINGER_S
        return until <= now

    def _give_up(self, conn: ClientConnection) -> None:
        if conn.stage == "head" and conn.arrived:
            self._refuse(conn, RequestTimeout(f"the request did not arrive within {HEAD_S:.0f} seconds"))
        else:
            self._close(conn)

    def _close_longest_waiting(self) -> None:
        # Of the idle connections, the first has waited longest.
        idle = list(self.keepalived_conns)[:1]
        conn = min([*self._waiting, *idle], key=lambda each: each.since, default=None)
        if conn is None:
            return
        if conn in self._waiting:
            self._forget(conn)
        else:
            self._forget_idle(conn)
        self._close(conn)

    def _guarded(self, step: Callable[[ClientConnection], None], conn: ClientConnection) -> None:
        """Do a step of a connection; one that fails closes that connection, and nothing else."""
        try:
            step(conn)
        except OSError as error:
            self.log.debug("the connection is broken: %s", error)
            self._close(conn)
        except Exception as error:
            self.log.error("a connection failed", exc_info=error)
            self._close(conn)

    def _forget(self, conn: ClientConnection) -> None:
        self._waiting.remove(conn)
        self.poller.unregister(conn.sock)

    def _forget_idle(self, conn: ClientConnection) -> None:
        with self._idle_lock:
            self.keepalived_conns.remove(conn)
            self.poller.unregister(conn.sock)

    def _close(self, conn: ClientConnection) -> None:
        self._waiting.discard(conn)
        if conn in self._streams:
            self._streams.discard(conn)
            self.poller.unregister(conn.sock)
        if conn.sock.outlet is not None:
            conn.sock.outlet.leave()
        self.nr_conns -= 1
        conn.close()

    # --- in a thread --------------------------------------------------------------------------------------

    def _answer(self, conn: ClientConnection, *, goes_on: bool) -> None:
        """Answer a request, and those that have come by the time of its answer; leave the rest to the loop.

        Args:
            goes_on: False for threads that answer one kind of request: the next may be of another.
        """
        is_idle = False
        try:
            self._answer_one(conn)
            while goes_on and self._is_plainly_kept(conn):
                if not self._has_next(conn):
                    is_idle = not conn.arrived
                    break
                conn.hand_over()
                self._answer_one(conn)
            if is_idle:
                self._keep_idle(conn)
        except OSError as error:
            self.log.debug("the connection is broken: %s", error)
            conn.is_kept = is_idle = False
        except Exception as error:
            self.log.error("a connection failed", exc_info=error)
            conn.is_kept = is_idle = False
        finally:
            if not is_idle:
                self.method_queue.defer(self._finish, conn)

    def _answer_one(self, conn: ClientConnection) -> None:
        # Whatever ends this ends the connection.
        conn.is_kept = False
        conn.is_kept = bool(self.handle(conn))

    def _is_plainly_kept(self, conn: ClientConnection) -> bool:
        """Whether the client has taken its answer, and nothing but its next request is awaited."""
        is_usual = conn.parser is None and conn.sock.outlet is None
        return is_usual and conn.is_kept and self.alive and not conn.sock.unsent

    def _has_next(self, conn: ClientConnection) -> bool:
        """Whether the next request is there as a whole, for these threads, and none waits for them. What has
        come of it is kept. The loop sees whether the client has closed.
        """
        if not conn.arrived and not self._threads.is_behind and (data := conn.sock.take(_READ_BYTES)):
            conn.begin("head", HEAD_S)
            conn.add(data)
        if not conn.is_request or self._threads.is_behind:
            return False
        path = conn.read_path
        return path is None or not (path == HEALTH or self._is_page(path))

    def handle(self, conn: ClientConnection) -> Any:
        """Answer a request. True: the client may send another one."""
        environ, conn.environ = conn.environ, None
        if environ is not None:
            may_keep = self.alive and len(self.keepalived_conns) < self.max_keepalived
            return self._plain_requests.answer(environ, conn.sock, may_keep=may_keep)
        conn.sock.deadline = time.monotonic() + BODY_S
        return super().handle(conn)

    def handle_request(self, req: Any, conn: ClientConnection) -> Any:
        """Answer a request that gunicorn could parse.

        Raises:
            ParseException: others could read it in another way.
        """
        one_reading.check(req)
        return super().handle_request(req, conn)

    def _keepalive_after(self, conn: ClientConnection, keepalive: Any) -> bool:
        # Nothing waits for what the application did not read of the body.
        conn.sock.deadline = 0.0
        try:
            return super()._keepalive_after(conn, keepalive)
        except ParseException:
            return False

    def handle_error(self, req: Any, client: socket.socket, addr: Any, exc: Exception) -> None:
        """Answer a request that gunicorn refuses (not HTTP, line too long) with a problem document."""
        if isinstance(exc, ParseException):
            self.log.info("unreadable request: %s", type(exc).__name__)
        else:
            self.log.error("the request could not be served", exc_info=exc)
        with suppress(OSError):
            client.sendall(unreadable(exc))
