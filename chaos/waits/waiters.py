"""Let runs that wait go on during a trial, and ask of them what their scripts say."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from chaos.stack import NotUp, Stack, make_token
from chaos.waits import documents, scripts
from chaos.waits.conversation import Conversation, Over, repeated
from chaos.waits.reporter import Reporter
from chaos.waits.values import Asked, Meant, Waited

# Between two runs (s), and how many of them are talked to at a time.
EVERY_S = 1.5
THREADS = 12


class Waiters:
    """Triggers runs that wait, one after the other, until `finish`; all kinds before any comes again."""

    def __init__(self, up: Stack, seed: int) -> None:
        self.up = up
        self._seed = seed
        self._tokens: dict[str, str] = {}
        self._runs: list[Meant] = []
        self._accepted: dict[str, set[str]] = defaultdict(set)
        self._asked: list[Asked] = []
        # No new run; and no further request.
        self._is_over, self._end = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(THREADS, "waiters")
        self._talks: list[Future[None]] = []
        self._reporter = Reporter(up, self._end, self._asked.append)
        self._thread = threading.Thread(target=self._run, name="waiters", daemon=True)

    def store(self) -> None:
        """Store the pipelines, and make the tokens of those who vote.

        Raises:
            NotUp: a pipeline was refused.
        """
        for document in documents.ALL:
            answer = self.up.ask("PUT", f"/api/pipelines/{document['id']}", document)
            if answer.status not in (200, 201):
                raise NotUp(f"pipeline {document['id']} was refused: {answer.status} {answer.body}")
        self._tokens = {
            name: make_token(self.up, name, scope, groups) for name, (scope, groups) in scripts.SCOPES.items()
        }
        self._tokens["write"] = self.up.token

    def start(self) -> None:
        """Start to trigger."""
        self._reporter.start()
        self._thread.start()

    def finish(self, seconds: float) -> None:
        """Trigger no more runs, and wait this many seconds until all was asked of those that there are.
        Results of suspended calls are reported until `close`.

        Raises:
            NotUp: a trigger was refused: the test itself is wrong.
        """
        self._is_over.set()
        self._thread.join()
        until = time.monotonic() + seconds
        while not all(each.done() for each in self._talks) and time.monotonic() < until:
            time.sleep(0.05)
        for each in self._talks:
            if each.done():
                each.result()

    def close(self) -> None:
        """Ask and report nothing any more."""
        self._end.set()
        self._pool.shutdown()
        self._reporter.finish()

    @property
    def waited(self) -> Waited:
        """What is known of these runs beside the rows."""
        finals = dict(self.up.elsewhere.finals)
        return Waited(self._runs, self._accepted, self._asked, finals, scripts.VOTERS)

    def _run(self) -> None:
        for number, (kind, chance) in enumerate(self._kinds()):
            token = f"waits-{self._seed}-{number}"
            script = kind(token, chance)
            self._runs.append(Meant(token, script.document["id"], script.demand))
            self._talks.append(self._pool.submit(self._talk, token, script, chance))
            if self._is_over.wait(EVERY_S):
                return

    def _kinds(self) -> Iterator[tuple[scripts.Kind, random.Random]]:
        chance = random.Random(f"waits {self._seed}")
        while True:
            for kind in chance.sample(scripts.KINDS, len(scripts.KINDS)):
                yield kind, random.Random(chance.random())

    def _talk(self, token: str, script: scripts.Script, chance: random.Random) -> None:
        with suppress(Over):
            run_id = self._trigger(token, script)
            names = (run_id, token, script.document["id"], self._tokens)
            script.talk(Conversation(self.up, *names, chance, self._end, self._asked.append))

    def _trigger(self, token: str, script: scripts.Script) -> str:
        path = f"/api/pipelines/{script.document['id']}/trigger"
        body = {"input": script.input, "runToken": token}
        answer, _ = repeated(lambda: self.up.ask("POST", path, body), self._end)
        if not answer.status:
            raise Over
        if not 200 <= answer.status < 300:
            raise NotUp(f"{token} was refused: {answer.status} {answer.body}")
        run_id = str(answer.body["pipelineRunId"])
        self._accepted[token].add(run_id)
        return run_id
