"""Report the results of suspended calls: each twice, then otherwise, and by the URL of the attempt before."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from chaos.stack import INSTANCES, Stack
from chaos.waits.conversation import Note, repeated
from chaos.waits.elsewhere import Handed
from chaos.waits.values import Asked

THREADS = 8
LOOK_S = 0.05
# What a report says that nobody may take.
WRONG = "wrong"


class Reporter:
    """Reports what calls have handed on, until `end` is set; half of it through what stands before the API.

    Args:
        end: nothing is reported any more once this is set.
        note: takes what was reported, and how it was answered.
    """

    def __init__(self, up: Stack, end: threading.Event, note: Note) -> None:
        self.up = up
        self._end = end
        self._note = note
        self._pool = ThreadPoolExecutor(THREADS, "reporter")
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)

    def start(self) -> None:
        """Begin to look for calls."""
        self._thread.start()

    def finish(self) -> None:
        """Wait for the reports that are under way; `end` is set."""
        self._thread.join()
        self._pool.shutdown()

    def _run(self) -> None:
        before: dict[str, Handed] = {}
        place = 0
        while not self._end.wait(LOOK_S):
            for call in self.up.elsewhere.handed[place:]:
                place += 1
                self._pool.submit(self._report, call, before.get(call.task_run_id), place % 2 == 0)
                before[call.task_run_id] = call

    def _report(self, call: Handed, before: Handed | None, is_meddled: bool) -> None:
        port = self.up.meddlers[INSTANCES[0]][1].port if is_meddled else None
        if before is not None:
            # Its end was recorded before this attempt began.
            self._ask(before, WRONG, port, may=False)
        if self._end.wait(call.delay):
            return
        result: Any = {"status": "completed", "result": call.token}
        if call.fails:
            result = {"status": "failed", "error": f"attempt {call.attempt} was told to fail"}
        # An attempt that died may be over by now.
        for _ in range(2):
            self._ask(call, result, port, may=None)
        if not self._end.is_set():
            self._ask(call, WRONG, port, may=False)

    def _ask(self, call: Handed, content: Any, port: int | None, *, may: bool | None) -> None:
        began = time.time()
        answer, tries = repeated(
            lambda: self.up.ask("POST", call.path, content, token="", port=port), self._end
        )
        asked = Asked(
            *("report", call.run_id, call.task_run_id, "", may, content, began, time.time(), tries),
            *(answer.status, answer.body, call.attempt),
        )
        self._note(asked)
