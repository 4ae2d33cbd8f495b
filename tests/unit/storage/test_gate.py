"""A store that does not answer costs its first caller a moment, and the next ones nothing."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from support.gcs_server import a_gcs_backend
from support.odd_store import OddStore, odd_store
from support.servers import wait_until

from pipeweave.circuit_breaker import CircuitBreaker
from pipeweave.errors import NotFound, Unavailable
from pipeweave.storage import GcsStorage, S3Storage, Seats, gate, gcs, open_backend
from pipeweave.storage.gate import Gate

PROVIDERS = ("minio", "gcs")
VALUE = b"x" * 60_000


@pytest.fixture
def hanging() -> Iterator[OddStore]:
    with odd_store("hang") as store:
        yield store


def opened(store: OddStore, provider: str = "minio") -> S3Storage | GcsStorage:
    entry = store.entry if provider == "minio" else a_gcs_backend(store.url)
    found = open_backend(entry)
    assert isinstance(found, S3Storage | GcsStorage)
    return found


def never_again(storage: S3Storage | GcsStorage) -> None:
    """Let no pause of the breaker end while the test looks."""
    storage.gate._breaker = CircuitBreaker(clock=lambda: 0.0, what="storage")


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("way", ["hang", "drip-head", "close", "500"])
def test_after_the_first_failure_no_caller_asks_a_store_in_trouble(
    way: str, provider: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gcs, "RETRY_FOR_S", 0.3)
    with odd_store(way) as store:
        storage = opened(store, provider)
        never_again(storage)
        with pytest.raises(Unavailable, match="failed"):
            storage.put("a", VALUE)
        [*late] = storage.gate._late
        connections = store.connections
        for _ in range(50):
            with pytest.raises(Unavailable, match="a moment ago"):
                storage.stat("a")
        # What is late goes on by itself; nobody else has connected.
        assert store.connections == connections or late
        assert set(store.requests) <= {"PUT", "POST"}


def test_who_gives_up_a_dripping_object_cuts_its_connection() -> None:
    with odd_store("drip") as store:
        storage = opened(store)
        never_again(storage)
        with pytest.raises(Unavailable):
            storage.get("a", limit=1_000_000)
        assert storage.gate.is_shut
        [late] = storage.gate._late
        wait_until(lambda: not late.is_under_way, what="the late reader goes on")


def test_content_that_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PATIENCE_S", 0.05)
    moved, goes_on = [0], threading.Event()

    def slow() -> str:
        for _ in range(5):
            moved[0] += gate.SLOWEST
            goes_on.wait(0.05)
        return "all of it"

    one = Gate("main", "", lambda error: True, lambda: None)
    assert one.ask(slow, moved=lambda: moved[0]) == "all of it"
    assert not one.is_shut


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_store_that_is_full_still_answers_who_reads(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gcs, "RETRY_FOR_S", 0.3)
    with odd_store("507") as store:
        storage = opened(store, provider)
        with pytest.raises(Unavailable):
            storage.put("a", VALUE)
        assert not storage.gate.is_shut
        asked = len(store.requests)
        with pytest.raises(Unavailable):
            storage.get("a")
        assert len(store.requests) > asked


def test_an_answer_opens_the_gate_again(hanging: OddStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "PATIENCE_S", 0.2)
    storage = opened(hanging)
    with pytest.raises(Unavailable):
        storage.stat("a")
    hanging.way = "404"
    wait_until(lambda: not storage.gate.is_shut, what="the pause never ends")
    monkeypatch.setattr(gate, "PATIENCE_S", 60.0)
    assert storage.stat("a") is None
    assert storage.stat("a") is None
    with pytest.raises(NotFound):
        opened(hanging).get("a")


def test_callers_are_refused_until_a_probe_is_answered_and_none_of_them_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "PATIENCE_S", 0.05)
    monkeypatch.setattr(gate, "LOOK_S", 0.01)
    asked, answers, probes = [0], threading.Event(), threading.Semaphore(0)

    def work() -> str:
        asked[0] += 1
        assert answers.wait(60)
        return "answered"

    def probe() -> None:
        probes.release()
        assert answers.wait(60)

    one = Gate("main", "", lambda error: True, probe)
    one._breaker = CircuitBreaker(0.05, what="storage")
    with pytest.raises(Unavailable, match="no answer"):
        one.ask(work)
    for _ in range(3):
        assert probes.acquire(timeout=60)
        for _ in range(20):
            with pytest.raises(Unavailable, match="a moment ago"):
                one.ask(work)
    assert asked == [1]
    answers.set()
    wait_until(lambda: not one.is_shut, what="no probe opens the gate")
    assert one.ask(work) == "answered"


def test_nobody_probes_for_a_backend_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "LOOK_S", 0.01)

    def refused() -> None:
        raise ConnectionRefusedError

    one = Gate("main", "", lambda error: True, refused)
    with pytest.raises(ConnectionRefusedError):
        one.ask(refused)
    prober = one._prober
    assert prober is not None and prober.is_under_way
    del one
    gc.collect()
    wait_until(lambda: not prober.is_under_way, what="it is probed for ever")


def test_seats_that_slow_callers_hold_are_refused_at_once(hanging: OddStore) -> None:
    seats, holding, over = Seats(2), threading.Semaphore(0), threading.Event()

    def hold() -> None:
        with seats.one():
            holding.release()
            over.wait()

    threads = [threading.Thread(target=hold) for _ in range(2)]
    for each in threads:
        each.start()
        holding.acquire()
    try:
        with pytest.raises(Unavailable, match="slow"), seats.one():
            pass
        storage = opened(hanging)
        storage.gate.seats = seats
        with pytest.raises(Unavailable, match="slow"):
            storage.stat("a")
        assert (hanging.connections, storage.gate.is_shut) == (0, False)
    finally:
        over.set()
        for each in threads:
            each.join()
    with seats.one():
        pass


def test_a_seat_that_is_free_soon_is_waited_for() -> None:
    seats, given_back = Seats(1), threading.Event()

    def hold() -> None:
        with seats.one():
            taken.set()
            given_back.wait()

    taken = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait()
    threading.Timer(0.05, given_back.set).start()
    with seats.one():
        thread.join()
