"""A live stack on two PostgreSQL servers, of which the standby takes over: beats, workers, an API, a client
that asks until it is answered, and whoever is called by hooks.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from uuid import UUID

from chaos.listener import Listener
from pipeweave import Client, ids
from pipeweave.errors import PipeWeaveError, Unavailable
from pipeweave.orchestrator.deployment import Deployment, migrate
from pipeweave.orchestrator.diagnosis import verify
from pipeweave.orchestrator.security import WRITE, access_tokens
from pipeweave.settings import Settings
from support.api_server import running_api
from support.live_stack import SECRET_KEY, Call, LiveStack
from support.replicas import Pair, replicated
from support.servers import wait_until

TENANT = "promoted"
# Between two triggers of a client (s).
EVERY_S = 0.2
STEPS = [{"id": "a", "task": "work"}, {"id": "b", "task": "work"}, {"id": "c", "task": "work"}]


@dataclass(slots=True)
class PromotedStack:
    """The stack.

    Args:
        pair: its PostgreSQL.
        live: its processes.
        client: of its API.
        listener: what the hooks of the pipeline `watched` call.
        accepted: the run that each run token was answered with first.
    """

    pair: Pair
    live: LiveStack
    client: Client
    listener: Listener
    accepted: dict[str, str] = field(default_factory=dict)

    def ask(self, token: str, seconds: float) -> str:
        """Trigger a run of `watched`, again and again until there is an answer; its id."""
        answers: list[str] = []

        def is_answered() -> bool:
            with suppress(Unavailable):
                run = self.client.trigger("watched", {"seconds": seconds}, run_token=token)
                answers.append(run.id)
            return bool(answers)

        wait_until(is_answered, what=f"the API accepts nothing (token {token})")
        self.accepted.setdefault(token, answers[0])
        return answers[0]

    @contextmanager
    def asking(self, seconds: float) -> Iterator[None]:
        """Trigger runs during the block, one after the other; each is answered when the block has ended."""
        over = threading.Event()

        def ask() -> None:
            number = 0
            while not over.wait(EVERY_S):
                self.ask(f"under-way-{number}", seconds)
                number += 1

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def fail_over(self) -> None:
        """The primary is killed, and the standby takes over; it is there again for this process, too."""
        self.pair.kill_primary()
        self.pair.promote()

        def answers() -> bool:
            with suppress(PipeWeaveError):
                return bool(self.live.rows("SELECT 1"))
            return False

        wait_until(answers, what="the new primary does not answer")

    def is_stored(self, run_id: str) -> bool:
        """Whether there is such a run."""
        return bool(self.live.rows("SELECT 1 FROM runs WHERE id = :id", id=uuid_of(run_id)))

    def all_ended(self) -> None:
        """Wait until every run has ended, and every end has caused what it has to."""
        self.live.until(lambda: self.live.rows(_OPEN)[0].count == 0, f"runs are open: {self.live.logs()}")

    def differences(self) -> list[str]:
        """What `pipeweave verify` finds."""
        with verify.snapshot(self.live.deployment.database) as tx:
            return [str(each) for each in verify.all_runs(tx)]

    def overlaps(self) -> list[tuple[Call, Call]]:
        """Calls of one attempt of one task run that were under way at the same time."""
        found: defaultdict[tuple[object, ...], list[Call]] = defaultdict(list)
        for each in self.live.every_call():
            found[each.run_id, each.step_id, each.map_index, each.seen].append(each)
        pairs: list[tuple[Call, Call]] = []
        for calls in found.values():
            calls.sort(key=lambda each: each.began)
            pairs += [(one, two) for one, two in pairwise(calls) if two.began < one.ended]
        return pairs

    def noticed(self) -> dict[str, int]:
        """By log: how often a promotion was noted in it."""
        logs = self.live.folder.glob("*.log")
        return {each.name: each.read_text().count('"database.promoted"') for each in logs}

    def check_consequences(self) -> None:
        """Each end of a run of `watched` has one call of a hook and one run that it starts."""
        ended = {each.id for each in self.live.rows("SELECT id FROM runs WHERE pipeline_id = 'watched'")}
        fires = self.live.rows("SELECT * FROM hook_fires")
        assert sorted(each.run_id for each in fires) == sorted(ended)
        fired = [each for each in fires if each.outcome == "fired"]
        assert all(self.listener.calls[str(each.id)] for each in fired)
        # Whose answer was lost with the primary is called again after a minute.
        assert all(each.outcome == "waiting" and each.attempts for each in fires if each not in fired)
        assert len(fired) > len(fires) / 2
        events = self.live.rows("SELECT run_id, started_run_id FROM event_fires")
        assert sorted(each.run_id for each in events) == sorted(ended)
        started = {each.id for each in self.live.rows("SELECT id FROM runs WHERE pipeline_id = 'following'")}
        assert {each.started_run_id for each in events} == started
        assert len(started) == len(ended)


_OPEN = """
SELECT (SELECT count(*) FROM runs WHERE finished_at IS NULL)
    + (SELECT count(*) FROM hook_fires WHERE outcome = 'waiting' AND attempts = 0)
    + (SELECT count(*) FROM event_fires WHERE outcome = 'waiting')
    + abs((SELECT count(*) FROM runs WHERE pipeline_id = 'watched') - (SELECT count(*) FROM hook_fires))
    + abs((SELECT count(*) FROM runs WHERE pipeline_id = 'watched') - (SELECT count(*) FROM event_fires))
    AS count
"""


def uuid_of(run_id: str) -> UUID:
    """The id of a run as rows have it."""
    return ids.read(ids.RUN, run_id)


@contextmanager
def promoted_stack(
    folder: Path, broker_url: str, *, is_synchronous: bool, concurrency: Sequence[int] = (2, 2)
) -> Iterator[PromotedStack]:
    """A stack for the block, whose standby may take over once.

    Args:
        concurrency: of each worker.
    """
    with ExitStack() as parts:
        pair = parts.enter_context(replicated(folder))
        migrate.upgrade(pair.url())
        if is_synchronous:
            pair.be_synchronous()
        settings = Settings(
            database_url=pair.url(),
            broker_url=broker_url,
            tenant=TENANT,
            data_dir=str(folder / "data"),
            secret_key=SECRET_KEY,
            dispatch_networks=("loopback",),
        )
        live = LiveStack(settings, Deployment.open(settings, pool_size=2), folder)
        parts.callback(live.close)
        for number in concurrency:
            live.start_worker("promoted.py", concurrency=number)
        live.start_beat()
        live.start_beat()
        api = parts.enter_context(running_api(settings, folder))
        with live.deployment.database.transaction() as tx:
            token = access_tokens.create_token(tx, name="client", tenants=[TENANT], scopes=[WRITE])
        client = parts.enter_context(Client(api.url, token, TENANT))
        listener = Listener()
        parts.callback(listener.close)
        live.store({"id": "watched", "steps": chained(STEPS), "onSuccess": [{"url": listener.url}]})
        live.store({"id": "following", "steps": [{"id": "only", "task": "work"}]})
        event = {"kind": "event", "on": "pipeline-completed", "pipelineId": "following"}
        client.put_trigger("after", {**event, "filter": {"pipelineId": ["watched"]}, "input": {"seconds": 0}})
        yield PromotedStack(pair, live, client, listener)


def chained(steps: Sequence[dict[str, str]]) -> list[dict[str, object]]:
    """These steps, one after the other."""
    before = [None, *(each["id"] for each in steps)]
    return [{**each, "needs": [last] if last else []} for each, last in zip(steps, before, strict=False)]
