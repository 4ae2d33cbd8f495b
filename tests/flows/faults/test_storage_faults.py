"""A store that answers nothing: calls that need none go on, results are kept, and no attempt is used up."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import pytest
from support.live_stack import LiveStack, StackMaker
from support.s3_server import a_backend, running_s3

from chaos.proxy import Proxy, proxy_to
from pipeweave.settings import Settings
from pipeweave.size_limits import INLINE_BYTES
from pipeweave.storage import Backends, S3Storage

LARGE = "x" * INLINE_BYTES
# Its first output is 40 times as long as its input.
GROWN = {
    "id": "grown",
    "steps": [
        {"id": "grow", "task": "repeat", "params": {"text": "${input.text}", "times": 40}},
        {"id": "after", "task": "measure", "params": {"text": "${steps.grow}"}},
    ],
}
MEASURED = {
    "id": "measured",
    "steps": [{"id": "measure", "task": "measure", "params": {"text": "${input}"}}],
}
SMALL = {"id": "small", "steps": [{"id": "noop", "task": "noop"}]}


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy to an S3 server."""
    with (
        running_s3(tmp_path_factory.mktemp("s3-server")) as url,
        proxy_to(int(url.rpartition(":")[2])) as made,
    ):
        yield made


@pytest.fixture(scope="module")
def stack(
    make_stack: StackMaker, tmp_path_factory: pytest.TempPathFactory, proxy: Proxy
) -> Iterator[LiveStack]:
    """A stack of a worker with four children, whose values are in that server."""
    entry = a_backend(f"http://127.0.0.1:{proxy.port}")
    bucket = Backends.of(Settings(storage_backends=(entry,))).default
    assert isinstance(bucket, S3Storage) and bucket.make_bucket()
    with make_stack(tmp_path_factory.mktemp("storage-faults"), (entry,)) as made:
        made.start_worker("steps.py", concurrency=4)
        for each in (GROWN, MEASURED, SMALL):
            made.store(each)
        yield made


@pytest.fixture
def away(proxy: Proxy) -> Iterator[Proxy]:
    """The proxy while nothing passes."""
    proxy.cut()
    yield proxy
    proxy.mend(delivers=True)


def outputs(stack: LiveStack, run_id: UUID) -> list[tuple[str, int, bool]]:
    """Each step's name, number of attempts, and whether its output is in storage."""
    rows = stack.rows(
        "SELECT step_id, attempt, output_path IS NOT NULL AS is_stored FROM task_runs WHERE run_id = :id"
        " AND step_id IS NOT NULL ORDER BY id",
        id=run_id,
    )
    return [(row.step_id, row.attempt, row.is_stored) for row in rows]


def test_results_are_kept_in_their_rows_while_storage_answers_nothing(stack: LiveStack, away: Proxy) -> None:
    runs = [stack.trigger("grown", {"text": "x" * 1_000}) for _ in range(8)]
    small = [stack.trigger("small") for _ in range(8)]
    for run_id in (*small, *runs):
        assert stack.finished(run_id).status == "completed", stack.logs()
    assert {tuple(outputs(stack, each)) for each in runs} == {(("grow", 1, False), ("after", 1, False))}


def test_a_result_goes_to_storage_again_once_it_answers(stack: LiveStack) -> None:
    # A child leaves storage alone for a moment after it was away.
    def is_stored() -> bool:
        run_id = stack.trigger("grown", {"text": "x" * 1_000})
        assert stack.finished(run_id).status == "completed"
        return outputs(stack, run_id)[0][2]

    stack.until(is_stored, "no result goes to storage")


def test_a_call_whose_input_cannot_be_loaded_uses_up_no_attempt(stack: LiveStack, proxy: Proxy) -> None:
    # Nothing is sent until a tick, and the input was stored before.
    run_id = stack.trigger_unsent("measured", LARGE)
    proxy.cut()
    stack.start_beat()

    def attempts() -> tuple[int, int]:
        [row] = stack.rows("SELECT attempt, max_attempts FROM task_runs WHERE run_id = :id", id=run_id)
        return row.attempt, row.max_attempts

    first = attempts()
    try:
        stack.until(lambda: attempts()[0] > first[0] + 1, "no attempt follows")
    finally:
        proxy.mend(delivers=True)
    assert stack.finished(run_id).status == "completed", stack.logs()
    now = attempts()
    assert now[1] - first[1] == now[0] - first[0]
