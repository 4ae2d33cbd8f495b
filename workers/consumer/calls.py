"""Calls a user's function for a claimed task run: fills its parameters, checks its result, catches errors."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pipeweave import ids
from pipeweave.attempt import Files, mask_assets, masked_result, printed_lines
from pipeweave.authoring import CallResult, Context, Progress, Suspend, Task, bind, key_of, outcome_of
from pipeweave.authoring.secret_means import SecretReferences, TargetedSecrets
from pipeweave.errors import (
    InvalidInput,
    InvalidResult,
    InvalidSetting,
    SandboxRefused,
    TaskNotLoaded,
    Unavailable,
)
from pipeweave.json_values import own_copy
from pipeweave.masking import Masking
from pipeweave.orchestrator.deployment import log_context
from pipeweave.orchestrator.domain import (
    CallOutcome,
    Completion,
    KeptValue,
    KeyWait,
    RunHeader,
    Suspended,
    TaskRun,
    failure,
    failure_of,
)
from pipeweave.orchestrator.engine import idempotency
from pipeweave.orchestrator.state import masked_values, previous_attempts
from pipeweave.orchestrator.store import Database, Transaction, Values
from pipeweave.orchestrator.waits import callback_urls
from pipeweave.sandbox import Sandbox
from pipeweave.secrets import AttemptSecrets
from pipeweave.sending import Networks
from pipeweave.settings import Settings
from pipeweave.spec import references, rules
from pipeweave.workers.boxes import Boxes, BoxSpec
from pipeweave.workers.consumer import reconcile, secret_params
from pipeweave.workers.consumer.call_files import CallFiles
from pipeweave.workers.consumer.call_limits import CallLimits
from pipeweave.workers.consumer.call_logs import CallLogs
from pipeweave.workers.consumer.deployment_access import DeploymentAccess
from pipeweave.workers.consumer.inputs import Inputs, UpstreamOutputs
from pipeweave.workers.consumer.progress import ProgressWriter
from pipeweave.workers.consumer.spoiling import Belongings
from pipeweave.workers.consumer.time_limit import TimeLimit

log = logging.getLogger(__name__)

# Time limit (s) and heartbeat interval (ms) of a call that fails at once: this process has no such task.
_UNKNOWN = (300.0, 60_000)


@dataclass(frozen=True, slots=True)
class PreparedCall:
    """A call whose function can be called now.

    Args:
        key: the idempotency key that it holds; None for none.
        seconds: how long the function may take (s).
        secrets: what it may ask for, and what hides that.
        way: calls it in another way than here and now: in a box, or within limits; None for here and now.
    """

    task: Task[..., Any]
    context: Context
    arguments: Mapping[str, Any]
    files: Files
    key: str | None
    seconds: float
    secrets: AttemptSecrets
    way: Callable[[], Any] | None = None


class Calls:
    """The tasks of one worker process, by id.

    Args:
        settings: with the secret and the address of callback URLs, and what built-in actions may reach.

    Attributes:
        spoilt: what a task has changed in this process so that it should call no more; None for nothing.
    """

    def __init__(
        self,
        database: Database,
        values: Values,
        tasks: Mapping[str, Task[..., Any]],
        settings: Settings,
    ) -> None:
        self.database = database
        self._settings = settings
        self._access = DeploymentAccess(settings, values.backends)
        self.values = values
        self.tasks = tasks
        self.inputs = Inputs(database, values)
        self.limit = TimeLimit()
        self.spoilt: str | None = None
        self.logs = CallLogs(values)
        self._files: Files | None = None
        self._belongings = Belongings()
        self._concurrent = {
            id: each.spec.concurrent
            for id, each in tasks.items()
            if each.is_async and each.spec.sandbox is None
        }
        self.boxes = Boxes(Networks(settings.dispatch_networks))

    @property
    def shortest_heartbeat_ms(self) -> int:
        """The shortest heartbeat interval of any of these tasks."""
        return min((each.spec.heartbeat_interval_ms for each in self.tasks.values()), default=60_000)

    def has(self, run: RunHeader, task_run: TaskRun) -> bool:
        """Whether this process can call the task, in the code that the run may call, or dispatch it."""
        if task_run.is_dispatched:
            return True
        task = self.tasks.get(task_run.task_id)
        return task is not None and (not run.plan.is_pinned or task.spec.code_hash == task_run.code_hash)

    def limits(self, run: RunHeader, task_run: TaskRun) -> tuple[float, int]:
        """How long a call may take (s), and its heartbeat interval (ms)."""
        task = self.tasks.get(task_run.task_id)
        if task is None:
            return _UNKNOWN
        own = run.own_timeout_s(task_run.step_id)
        return (task.spec.timeout if own is None else own), task.spec.heartbeat_interval_ms

    def is_keyed(self, task_run: TaskRun) -> bool:
        """Whether it executes under an idempotency key."""
        task = self.tasks.get(task_run.task_id)
        makes_key = task is not None and task.spec.idempotency_key is not None
        return makes_key or task_run.idempotency_key is not None

    def is_async(self, task_run: TaskRun) -> bool:
        """Whether its function is `async def` and called here."""
        return task_run.task_id in self._concurrent and not task_run.is_dispatched

    def follow(self, task_id: str) -> bool:
        """Whether calls of a task follow those of others here: they neither run at once, nor wait for a key.

        And the loss of an attempt, by a call after it that ends the process, is not the end of the task run.
        """
        task = self.tasks.get(task_id)
        if task is None or task.is_async:
            return False
        return task.spec.idempotency_key is None and task.spec.retries > 0

    @property
    def async_tasks(self) -> Collection[str]:
        """The loaded tasks whose functions are `async def`."""
        return self._concurrent.keys()

    def concurrent(self, task_id: str) -> int:
        """How many calls of an async task this process may run at once."""
        return self._concurrent.get(task_id, 1)

    def call(self, run: RunHeader, task_run: TaskRun, seconds: float) -> CallOutcome:
        """Call the task's function once, for `seconds` at most, unless its idempotency key has a result or
        another holder. An exception ends this attempt, never this process.
        """
        secrets = self._access.secrets_of(run.tenant)
        with log_context.WorkingOn(run, task_run), Masking(secrets.masks):
            self.logs.begin(task_run)
            try:
                return self._call(run, task_run, seconds, secrets)
            except BaseException as error:
                # SystemExit would end the child, MemoryError the whole worker: both are failures.
                return task_run, failure_of(error)
            finally:
                printed_lines.end_lines()
                self.logs.end(task_run)
                self._close_files()

    def prepare(
        self, run: RunHeader, task_run: TaskRun, seconds: float, progress: Progress
    ) -> PreparedCall | CallOutcome:
        """Make everything ready to call an async function; `finish` must follow. If the call has ended
        already, return its outcome.
        """
        secrets = self._access.secrets_of(run.tenant)
        with log_context.WorkingOn(run, task_run), Masking(secrets.masks):
            self.logs.begin(task_run)
            outcome: PreparedCall | CallOutcome
            try:
                outcome = self._prepare(run, task_run, seconds, progress, secrets)
                if isinstance(outcome, PreparedCall) and outcome.way is not None:
                    raise _not_together(task_run)
            except Unavailable as error:
                outcome = task_run, failure.not_begun(error)
            except BaseException as error:
                outcome = task_run, failure_of(error)
            if isinstance(outcome, PreparedCall):
                self._files = None  # they are closed when the call has ended
            else:
                printed_lines.end_lines()
                self.logs.end(task_run)
                self._close_files()
            return outcome

    def finish(
        self,
        run: RunHeader,
        task_run: TaskRun,
        prepared: PreparedCall,
        seconds: float,
        returned: Any,
        error: BaseException | None,
    ) -> CallOutcome:
        """Read and keep what an async function has returned, or raised.

        Args:
            seconds: how long storing its assets may take (s).
        """
        with log_context.WorkingOn(run, task_run), Masking(prepared.secrets.masks):
            try:
                self._look_round()
                if error is not None:
                    return task_run, failure_of(error)
                return self._finish(run, task_run, prepared, seconds, returned)
            except BaseException as wrong:
                return task_run, failure_of(wrong)
            finally:
                printed_lines.end_lines()
                self.logs.end(task_run)
                prepared.files.close()

    def _call(
        self, run: RunHeader, task_run: TaskRun, seconds: float, secrets: AttemptSecrets
    ) -> CallOutcome:
        try:
            progress = ProgressWriter(self.database, task_run)
            prepared = self._prepare(run, task_run, seconds, progress, secrets)
        except Unavailable as error:
            return task_run, failure.not_begun(error)
        if not isinstance(prepared, PreparedCall):
            return prepared
        try:
            with self.limit.of(prepared.seconds, task_run):
                way = prepared.way
                returned = prepared.task.fn(**prepared.arguments) if way is None else way()
        finally:
            self._look_round()
        return self._finish(run, task_run, prepared, self.limit.left, returned)

    def _prepare(
        self,
        run: RunHeader,
        task_run: TaskRun,
        seconds: float,
        progress: Progress,
        secrets: AttemptSecrets,
    ) -> PreparedCall | Completion | KeyWait:
        task = self.tasks.get(task_run.task_id)
        if task is None:
            raise TaskNotLoaded(
                f"this worker has not loaded task {task_run.task_id!r}",
                hint="restart the workers of its service with the same --app",
            )
        files = self._files = Files(CallFiles(self.database, self.values, run, task_run))
        context = self._context(run, task_run, files, progress, secrets)
        sandbox = self._sandbox(run, task_run, task)
        arguments = bind(task.fn, context) if sandbox is None else {}
        began = time.monotonic()
        key = task_run.idempotency_key or self._key(task, run, task_run, context, seconds)
        if key is not None:
            other = self._claim(run, task_run, key)
            if isinstance(other, Completion):
                return replace(other, selected_next=_chosen(other.selected_next, run, task_run, task))
            if other is not None:
                return other
            seconds = max(seconds - (time.monotonic() - began), 0.001)
        prepared = PreparedCall(task, context, arguments, files, key, seconds, secrets)
        if sandbox is not None:
            takes_pending = run.async_defaults(task_run.step_id) is not None
            return replace(prepared, way=self._boxed(run, prepared, sandbox, takes_pending))
        return prepared if not task.spec.has_limits else replace(prepared, way=_limited(prepared))

    @staticmethod
    def _sandbox(run: RunHeader, task_run: TaskRun, task: Task[..., Any]) -> Sandbox | None:
        """What the call may use: the tighter of what its step and its task say; None if neither says it."""
        own, of_step = task.spec.sandbox, run.own_sandbox(task_run.step_id)
        if of_step is None:
            return own
        return Sandbox(**of_step) if own is None else own.narrowed(of_step)

    def _boxed(
        self, run: RunHeader, prepared: PreparedCall, sandbox: Sandbox, takes_pending: bool
    ) -> Callable[[], Any]:
        """Calls the function in a box."""
        spec = BoxSpec.of_task(run.tenant, prepared.task, sandbox)
        return lambda: self.boxes.call(
            spec, prepared.context, prepared.files, prepared.seconds, takes_pending=takes_pending
        )

    def _finish(
        self, run: RunHeader, task_run: TaskRun, prepared: PreparedCall, seconds: float, returned: Any
    ) -> CallOutcome:
        takes_pending = run.async_defaults(task_run.step_id) is not None
        result = self._masked(task_run, prepared, outcome_of(returned, takes_pending=takes_pending))
        if result.suspend is not None:
            return self._suspended(run, task_run, prepared, seconds, result.suspend)
        chosen = _chosen(result.run_next, run, task_run, prepared.task)
        try:
            kept = self._keep(run, result.output)
            assets = self._store_assets(run, task_run, prepared.files, seconds)
        except Unavailable as error:
            return task_run, failure.not_kept(error)
        return Completion(task_run, kept, chosen, prepared.key, assets=assets)

    def _masked(self, task_run: TaskRun, prepared: PreparedCall, result: CallResult) -> CallResult:
        """The result without the values of secrets; an event says that it held one, and where."""
        masks = prepared.secrets.masks
        if not masks.longest:
            return result
        masked = masked_result(result, masks)
        held = [] if masked is result else ["output" if result.suspend is None else "poll"]
        held += [f"assets.{key}" for key in mask_assets(prepared.files, masks)]
        if held:
            log.warning("task_run.secret_masked", extra={"places": held})
            reconcile.when_it_answers(
                lambda: self.database.run(lambda tx: masked_values.note(tx, task_run, held), is_one=False),
                "secret_masked",
            )
        return masked

    def _suspended(
        self, run: RunHeader, task_run: TaskRun, prepared: PreparedCall, seconds: float, suspend: Suspend
    ) -> CallOutcome:
        try:
            assets = self._store_assets(run, task_run, prepared.files, seconds)
        except Unavailable as error:
            return task_run, failure.not_kept(error)
        return Suspended(task_run, suspend, assets)

    def _keep(self, run: RunHeader, output: Any) -> KeptValue:
        try:
            return self.values.keep_output(output, self.values.backends.choose(run.tenant, run.pipeline_id))
        except InvalidSetting:
            raise  # the storage's fault, not the result's
        except InvalidInput as error:
            raise InvalidResult(error.detail) from error

    def _store_assets(
        self, run: RunHeader, task_run: TaskRun, files: Files, seconds: float
    ) -> Mapping[str, Any] | None:
        """Store the assets that the task has added, before any row names them; None if it has added none."""
        if not files.added:
            return None
        means = CallFiles(self.database, self.values, run, task_run)
        with self.limit.of(seconds, task_run):
            assets = files.store(means.put)
        if assets is not None:
            means.claim(assets)
        return assets

    def _close_files(self) -> None:
        if self._files is not None:
            self._files.close()
            self._files = None

    def _look_round(self) -> None:
        """After a call: put right what it has spoilt, before anything is stored."""
        if (spoilt := self._belongings.put_right()) is not None:
            self.spoilt = spoilt
            log.warning("child.spoilt", extra={"reason": spoilt})

    def _key(
        self, task: Task[..., Any], run: RunHeader, task_run: TaskRun, context: Context, seconds: float
    ) -> str | None:
        make = task.spec.idempotency_key
        if make is None:
            return None
        context = self._without_secrets(run, task_run, context)
        with self.limit.of(seconds, task_run):
            return key_of(make, task.fn, context)

    def _without_secrets(self, run: RunHeader, task_run: TaskRun, context: Context) -> Context:
        """The context with references in place of secrets: a key is stored, and holds when one is renewed."""
        means = SecretReferences()
        wanted = run.plan.params.get(run.plan.ordinals[task_run.step_id])
        if wanted is None or not wanted.secrets:
            return replace(context, secrets=means)
        params = self._resolve(run, task_run, self.inputs.input(run), means)
        return replace(context, secrets=means, params=params, input=params)

    def _claim(self, run: RunHeader, task_run: TaskRun, key: str) -> Completion | KeyWait | None:
        """Claim a key; None when the function may be called. It waits while PostgreSQL is away."""

        def claim(tx: Transaction) -> Completion | KeyWait | None:
            return idempotency.claim(tx, run.tenant, task_run, key)

        return reconcile.when_it_answers(lambda: self.database.run(claim, is_one=False), "key")

    def _context(
        self,
        run: RunHeader,
        task_run: TaskRun,
        files: Files,
        progress: Progress,
        secrets: AttemptSecrets,
    ) -> Context:
        step = run.plan.specs[task_run.step_id]
        is_standalone = run.pipeline_id is None
        value = self.inputs.input(run)
        params = None if step.params is None else own_copy(self._resolve(run, task_run, value, secrets))
        return Context(
            run_id=ids.show(ids.RUN, run.id),
            task_run_id=ids.show(ids.TASK_RUN, task_run.id),
            task_id=task_run.task_id,
            pipeline_id=run.pipeline_id,
            step_id=None if is_standalone else step.id,
            attempt=task_run.attempt,
            input=own_copy(value) if params is None else params,
            params=params,
            upstream=UpstreamOutputs(self.inputs, run, step.id),
            previous_attempts=() if task_run.attempt == 1 else self._previous(task_run),
            item=task_run.item,
            map_index=task_run.map_index,
            map_name=step.item_name,
            code_version=task_run.code_version,
            code_hash=task_run.code_hash,
            tenant=run.tenant,
            triggered_by=None if run.triggered_by is None else run.triggered_by.to_json(),
            trace_id=run.trace_id,
            on_progress=progress,
            files=files,
            cancelled=self.limit.is_over,
            make_callback_url=lambda: self._callback_url(run, task_run),
            deployment=self._access,
            secrets=secrets,
        )

    def _callback_url(self, run: RunHeader, task_run: TaskRun) -> str:
        return callback_urls.url_of(self._settings, run, task_run, self.database.now())

    def _previous(self, task_run: TaskRun) -> Sequence[Mapping[str, Any]]:
        def look() -> Sequence[Mapping[str, Any]]:
            with self.database.statements() as tx:
                return previous_attempts(tx, task_run)

        return reconcile.when_it_answers(look, "previous_attempts")

    def _resolve(self, run: RunHeader, task_run: TaskRun, value: Any, secrets: TargetedSecrets) -> Any:
        ordinal = run.plan.ordinals[task_run.step_id]
        wanted = run.plan.params[ordinal]
        params, scope = run.plan[ordinal].step.params, self.inputs.further(run, wanted)
        steps, now = self.inputs.outputs(run, wanted.outputs.keys()), self.database.now()

        def resolve(part: Any, values: Mapping[str, Any]) -> Any:
            return references.resolve(
                part,
                input=value,
                steps=steps,
                item=task_run.item,
                map_index=task_run.map_index,
                scope={**scope, "secret": values} if values else scope,
                now=now,
            )

        if not wanted.secrets:
            return resolve(params, {})
        return secret_params.resolved(self.tasks.get(task_run.task_id), params or {}, secrets, resolve)


def _not_together(task_run: TaskRun) -> SandboxRefused:
    return SandboxRefused(
        f"task {task_run.task_id!r} is an `async def` function without a sandbox of its own: "
        "its calls share a process",
        hint="write the sandbox at the task: @task(sandbox=Sandbox(…))",
    )


def _limited(prepared: PreparedCall) -> Callable[[], Any]:
    """Calls the function here, within the limits of its task."""
    spec = prepared.task.spec

    def call() -> Any:
        with CallLimits(spec.memory_bytes, spec.cpu_s):
            return prepared.task.fn(**prepared.arguments)

    return call


def _chosen(
    run_next: Collection[str] | None, run: RunHeader, task_run: TaskRun, task: Task[..., Any]
) -> tuple[str, ...] | None:
    """The successors that a task chose, checked; None for all.

    Nothing follows a standalone task. It may choose all the same, as it would in its pipeline.
    """
    if run_next is None:
        return None
    planned = run.plan[run.plan.ordinals[task_run.step_id]]
    successors: Collection[str] = [run.plan[each].id for each in planned.successors]
    if run.pipeline_id is None:
        successors = task.spec.allowed_next
    is_item = task_run.map_index is not None
    return rules.select_next(run_next, successors, step_id=planned.id, is_item=is_item)
