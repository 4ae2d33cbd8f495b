"""The conformance kit: a worker that keeps the protocol passes, and each fault is found by its check."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.tiny_worker import TinyWorker

from pipeweave.conformance import ContractLevel, ContractVerdict, Kit, SessionOptions, Trial
from pipeweave.errors import InvalidInput, NotFound, StartFailed

PATIENT = {"patience_s": 4.0, "quiet_s": 0.4, "wait_s": 20.0}
TRIALS = {
    "slow_task": Trial("slow", {"n": 1}),
    "failing_task": Trial("fail"),
    "pending_task": Trial("submit"),
}
TINY = Path(__file__).parents[2] / "support" / "tiny_worker.py"
# How each fault is judged.
WARNED, FAILED = ContractLevel.WARN, ContractLevel.FAIL
FAULTS: Mapping[str, ContractLevel] = {
    "registration": FAILED,
    "credentials": FAILED,
    "health": WARNED,
    "dispatch": FAILED,
    "report": FAILED,
    "output": FAILED,
    "assets": FAILED,
    "logs": WARNED,
    "next-attempt": FAILED,
    "upstream": FAILED,
    "concurrent": FAILED,
    "duplicate-dispatch": WARNED,
    "stale-report": FAILED,
    "report-outage": WARNED,
    "report-cut": WARNED,
    "wrong-signature": WARNED,
    "missing-signature": WARNED,
    "old-signature": WARNED,
    "foreign-path": WARNED,
    "unknown-task": FAILED,
    "missing-input": WARNED,
    "large-input": FAILED,
    "many-references": FAILED,
    "failing-task": FAILED,
    "pending-task": FAILED,
    "heartbeat": FAILED,
    "cancellation": WARNED,
    "wrong-types": WARNED,
    "no-object": WARNED,
    "truncated": FAILED,
    "huge": FAILED,
    "not-json": FAILED,
    "strays": WARNED,
}
# Checks that wait for a while; they are made with workers without a fault, and with their own.
LONG = frozenset({"many-references", "stale-report", "heartbeat", "cancellation", "huge", "truncated"})


@contextmanager
def worker_of(kit: Kit, access: str, *faults: str) -> Iterator[TinyWorker]:
    worker = TinyWorker(kit.orchestrator_url, kit.secret, access=access, faults=faults)
    worker.register()
    yield worker
    if worker.serving.is_alive():
        worker.stop()


def found_in(*faults: str, access: str = "urls", **chosen: object) -> dict[str, ContractVerdict]:
    """What the kit finds in a worker with these faults."""
    with Kit(SessionOptions(**{**PATIENT, **TRIALS, **chosen})) as kit, worker_of(kit, access, *faults):  # type: ignore[arg-type]
        return {each.check.name: each.verdict for each in kit.findings()}


def blamed(found: Mapping[str, ContractVerdict]) -> dict[str, ContractLevel]:
    return {name: each.level for name, each in found.items() if each.level in (WARNED, FAILED)}


@pytest.mark.parametrize("access", ["urls", "token"])
def test_a_worker_that_keeps_the_protocol_passes_every_check(access: str) -> None:
    found = found_in(access=access, patience_s=30.0)
    skipped = {name for name, each in found.items() if each.level is ContractLevel.SKIP}
    assert not {name: each for name, each in found.items() if each.level in (WARNED, FAILED)}
    assert skipped == {"shutdown", "restart"} | ({"forged-token"} if access == "urls" else set())


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_by_its_check(fault: str) -> None:
    found = found_in(fault, skip=LONG - {fault})
    assert blamed(found) == {fault: FAULTS[fault]}, found
    assert found[fault].mend


@pytest.mark.parametrize("fault", ["forged-token", "expired-access"])
def test_faults_with_storage_tokens_are_found(fault: str) -> None:
    assert blamed(found_in(fault, access="token", skip=LONG)) == {fault: WARNED}


def test_a_doubtful_unit_is_found() -> None:
    found = found_in("doubtful-registration", only=frozenset({"registration"}))
    assert blamed(found) == {"registration": WARNED}
    assert "milliseconds" in found["registration"].happened


def test_after_the_end_of_a_worker_the_other_checks_are_skipped() -> None:
    found = found_in("truncated", only=frozenset({"truncated", "huge", "not-json"}))
    assert [each.level for each in found.values()] == [FAILED, ContractLevel.SKIP, ContractLevel.SKIP]


def test_without_a_task_that_completes_most_checks_are_skipped() -> None:
    found = found_in(task=Trial("fail"))
    assert blamed(found) == {"report": FAILED}
    assert "RuntimeError" in found["report"].happened or "the task fails" in found["report"].happened
    assert found["upstream"].level is ContractLevel.SKIP


def test_chosen_checks_alone_are_made() -> None:
    assert list(found_in(only=frozenset({"upstream", "health"}), skip=frozenset({"health"}))) == ["upstream"]


def test_a_worker_that_does_not_register_fails() -> None:
    with Kit(SessionOptions(wait_s=0.1)) as kit:
        first, *others = kit.findings()
    assert first.verdict.level is FAILED
    assert {each.verdict.level for each in others} == {ContractLevel.SKIP}


def test_an_unknown_check_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(InvalidInput, match="hart-beat") as caught:
        Kit(SessionOptions(only=frozenset({"hart-beat"})))
    assert caught.value.hint == "did you mean 'heartbeat'?"


def test_a_task_that_is_not_registered_is_refused() -> None:
    with pytest.raises(NotFound) as caught:
        found_in(task=Trial("ecko"))
    assert caught.value.hint == "did you mean 'echo'?"


# --- a worker that the kit starts -----------------------------------------------------------------------


def started(*faults: str, **chosen: object) -> dict[str, ContractVerdict]:
    command = f"{sys.executable} {TINY} {','.join(faults)}"
    environment = {"PYTHONPATH": ":".join(sys.path)}
    options = SessionOptions(**PATIENT, **chosen, command=command, environment=environment)  # type: ignore[arg-type]
    with Kit(options) as kit:
        return {each.check.name: each.verdict for each in kit.findings()}


ENDS = frozenset({"report", "not-json", "shutdown", "restart"})


def test_a_worker_is_started_stopped_and_started_again() -> None:
    found = started(only=ENDS, slow_task=Trial("slow"))
    assert {each.level for each in found.values()} == {ContractLevel.PASS}, found


def test_a_worker_that_ends_is_started_again() -> None:
    found = started("not-json", only=ENDS)
    assert blamed(found) == {"not-json": FAILED}, found


def test_a_worker_that_drops_its_work_is_found() -> None:
    found = started("shutdown", only=ENDS, slow_task=Trial("slow"))
    assert blamed(found) == {"shutdown": WARNED}, found


def test_a_hash_that_changes_without_the_code_is_found() -> None:
    assert blamed(started("restart", only=ENDS)) == {"restart": FAILED}


def test_a_command_that_does_not_exist_is_an_error() -> None:
    with (
        pytest.raises(StartFailed, match="no-such-program"),
        Kit(SessionOptions(command="no-such-program")) as kit,
    ):
        list(kit.findings())


def test_a_command_that_ends_at_once_is_said() -> None:
    with Kit(SessionOptions(command=f"{sys.executable} -c 0")) as kit:
        first = next(iter(kit.findings()))
    assert "ended before it registered" in first.verdict.happened
