"""Prepares dispatches: puts what they name into storage, and collects what they say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import orjson

from pipeweave import dispatch_ids, ids
from pipeweave.errors import PipeWeaveError, SandboxRefused, Unavailable
from pipeweave.orchestrator.dispatch import item_inputs, tokens, upstream
from pipeweave.orchestrator.dispatch.database_away import database_needed
from pipeweave.orchestrator.dispatch.known_outputs import KnownOutputs, remember_read
from pipeweave.orchestrator.dispatch.object_urls import ObjectUrls
from pipeweave.orchestrator.dispatch.payload import NO_ASSETS, PreparedDispatch, StoredUpstream
from pipeweave.orchestrator.dispatch.secret_params import DispatchSecrets, found_for
from pipeweave.orchestrator.dispatch.services import DispatchService
from pipeweave.orchestrator.dispatch.shared_values import SharedValues
from pipeweave.orchestrator.dispatch.upstream import UpstreamPage, UpstreamStep
from pipeweave.orchestrator.domain.failure import Failure, failure_of, not_begun
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.step_values import Wanted
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.orchestrator.engine import referred_values
from pipeweave.orchestrator.engine.referred_values import NOTHING_LOADED, ReferredValues
from pipeweave.orchestrator.objects import uploads
from pipeweave.orchestrator.state import attempts
from pipeweave.orchestrator.store.database import Database
from pipeweave.orchestrator.store.values import Values
from pipeweave.orchestrator.waits import callback_urls
from pipeweave.secrets import SecretFinder
from pipeweave.settings import Settings
from pipeweave.spec import references, split_secrets

Uploads = Mapping[str, Mapping[str, Any]]

# Every upload's id begins so, as a text of an input.
_UPLOAD_MARK = f'"{ids.UPLOAD}_'.encode()

OfEach = list[tuple[TaskRun, "PreparedDispatch | Failure"]]


class Preparing:
    """Prepares the dispatches of one process. Several threads may use it.

    Args:
        known: outputs of steps that need not be read; None where every one is read.
    """

    def __init__(
        self, database: Database, values: Values, settings: Settings, known: KnownOutputs | None = None
    ) -> None:
        self._database = database
        self._values = values
        self._settings = settings
        self._known = known
        self.shared = SharedValues(values)
        self._tokens = tokens.StorageTokens(settings, values.backends)
        self._finder = SecretFinder(settings.secrets)

    def all(self, run: RunHeader, service: DispatchService, task_runs: Sequence[TaskRun]) -> OfEach:
        """Prepare a dispatch for each of the task runs, or say why its attempt fails.

        Raises:
            DatabaseAway: no attempt has begun.
        """
        by_step: dict[str, list[TaskRun]] = {}
        for each in task_runs:
            by_step.setdefault(each.step_id, []).append(each)
        return [
            pair for step_id, mine in by_step.items() for pair in self._of_step(run, service, step_id, mine)
        ]

    def _of_step(
        self, run: RunHeader, service: DispatchService, step_id: str, task_runs: Sequence[TaskRun]
    ) -> OfEach:
        backend = self._values.backends.choose(run.tenant, run.pipeline_id)
        self.shared.forget_before(self._database.timeline.promotions)
        try:
            _refuse_sandbox(run, step_id)
            page = self._upstream(run, step_id)
            stored = self.stored(run, page.steps, backend)
            uploads = self._uploads(run, backend)
        except PipeWeaveError as error:
            failure = _failure(error)
            return [(each, failure) for each in task_runs]
        pairs: OfEach = []
        for each in task_runs:
            try:
                pairs.append((each, self._one(run, service, each, backend, page, stored, uploads)))
            except PipeWeaveError as error:
                pairs.append((each, _failure(error)))
        return pairs

    def _upstream(self, run: RunHeader, step_id: str) -> UpstreamPage:
        if not run.plan[run.plan.ordinals[step_id]].predecessors:
            return UpstreamPage((), None)
        if self._known is not None and (known := self._known.page(run, step_id)) is not None:
            return known
        remembered = None if self._known is None else self._known.now
        with database_needed(), self._database.statements() as tx:
            page = upstream.page(tx, run, step_id)
        if remembered is not None:
            remember_read(remembered, run, page.steps)
        return page

    def stored(
        self, run: RunHeader, steps: Sequence[UpstreamStep], backend: str
    ) -> Mapping[str, StoredUpstream]:
        """Put the outputs of steps into a backend, and say where they are.

        Raises:
            Unavailable, InvalidSetting: storage cannot be used.
        """
        paths = self.shared.outputs_of(run.id, {each.step_id: each.place for each in steps}, backend)
        return {
            each.step_id: StoredUpstream(
                paths[each.step_id], self._assets(each, backend) if each.assets else NO_ASSETS
            )
            for each in steps
        }

    def _assets(self, step: UpstreamStep, backend: str) -> Mapping[str, Mapping[str, Any]]:
        return {
            key: {**each, "path": self.shared.path_of(each["path"], backend)}
            for key, each in step.assets.items()
        }

    def _uploads(self, run: RunHeader, backend: str) -> Uploads:
        """The uploads that the run's input names, at paths in the backend of the dispatch."""
        if run.input_path is None and _UPLOAD_MARK not in orjson.dumps(run.input):
            return {}
        with database_needed(), self._database.statements() as tx:
            entries = uploads.of_run(tx, run.id)
        return {
            upload_id: {**each, "path": self.shared.path_of(each["path"], backend)}
            for upload_id, each in entries.items()
        }

    def _one(
        self,
        run: RunHeader,
        service: DispatchService,
        task_run: TaskRun,
        backend: str,
        page: UpstreamPage,
        stored: Mapping[str, StoredUpstream],
        uploads: Uploads,
    ) -> PreparedDispatch:
        secret = tokens.secret_of(self._settings)
        dispatch_id = dispatch_ids.make(secret, task_run.id, task_run.attempt)
        with database_needed():
            clock = self._database.now()
        now = clock.timestamp()
        has_urls = service.storage_access == "urls"
        secrets = self._secrets(run, task_run)
        return PreparedDispatch(
            run,
            task_run,
            service,
            dispatch_id,
            self._input_path(run, service, task_run, dispatch_id, backend),
            stored,
            page.next,
            self._previous_attempts(task_run),
            uploads,
            token=None if has_urls else self._tokens.of(service, backend, now),
            urls=ObjectUrls.for_attempt(
                self._values.backends, secret, backend, service.timeout_of(run, task_run.step_id), now
            )
            if has_urls
            else None,
            callback_url=callback_urls.url_for_worker(self._settings, run, task_run, clock),
            secrets=secrets,
        )

    def _secrets(self, run: RunHeader, task_run: TaskRun) -> DispatchSecrets | None:
        """The secrets that the params of the step name."""
        ordinal = run.plan.ordinals[task_run.step_id]
        if ordinal not in run.plan.params or not run.plan.params[ordinal].secrets:
            return None
        return found_for(self._finder, run.tenant, run.plan[ordinal].step.params or {})

    def _input_path(
        self, run: RunHeader, service: DispatchService, task_run: TaskRun, dispatch_id: str, backend: str
    ) -> str:
        """The path of the input: the run's own, or the params or the item of the step."""
        step = run.plan[run.plan.ordinals[task_run.step_id]].step
        if step.params is None and task_run.map_index is None:
            return self.shared.input_of(run, backend)
        params = None if step.params is None else self._resolved(run, task_run, step.params)
        if task_run.map_index is None:
            return self.shared.own_input(dispatch_id, params, backend)
        name = item_inputs.item_name(step, service.parameters)
        needs_more = params is None and any(each != name for each in service.parameters or ())
        value = item_inputs.item_input(
            task_run.item,
            name,
            params=params,
            run_input=self._values.load(run.input, run.input_path) if needs_more else None,
            parameters=service.parameters,
        )
        return self.shared.own_input(dispatch_id, value, backend)

    def _resolved(self, run: RunHeader, task_run: TaskRun, params: Mapping[str, Any]) -> Mapping[str, Any]:
        wanted = run.plan.params[run.plan.ordinals[task_run.step_id]]
        there, now = self._referred(run, wanted)
        scope = there.with_loaded(self._values.load_all(there.paths(wanted))).scope(wanted)
        if wanted.secrets:
            # They go apart from the input, which is stored.
            params = {name: each for name, each in params.items() if name not in split_secrets(params).whole}
        resolved: Mapping[str, Any] = references.resolve(
            params,
            input=scope["input"],
            steps=scope["steps"],
            item=task_run.item,
            map_index=task_run.map_index,
            scope=scope,
            now=now,
        )
        return resolved

    def _referred(self, run: RunHeader, wanted: Wanted) -> tuple[ReferredValues, datetime]:
        """The values that params refer to, and the time."""
        known = None if self._known is None else self._known.places(run, wanted)
        with database_needed():
            if known is not None:
                return ReferredValues(run, known, {}, NOTHING_LOADED), self._database.now()
            with self._database.transaction() as tx:
                return referred_values.find(tx, run, wanted), tx.now

    def _previous_attempts(self, task_run: TaskRun) -> Sequence[Mapping[str, Any]]:
        if task_run.attempt == 1:
            return ()
        with database_needed(), self._database.statements() as tx:
            return attempts.previous_attempts(tx, task_run)


def _refuse_sandbox(run: RunHeader, step_id: str) -> None:
    """A service could not keep the sandbox that a step has."""
    if run.own_sandbox(step_id) is not None:
        raise SandboxRefused(
            f"step {step_id!r} has a sandbox, and its task is one of an HTTP service, which has none",
            hint="take the sandbox out of the step, or run the task with `pipeweave worker`",
        )


def _failure(error: PipeWeaveError) -> Failure:
    """The failure of an attempt whose dispatch could not be prepared. Storage that is away uses up none."""
    return not_begun(error) if isinstance(error, Unavailable) else failure_of(error)
