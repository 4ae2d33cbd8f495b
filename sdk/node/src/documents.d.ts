// The documents of the API, as its OpenAPI document has them. `make client` writes this file.

/** A yes, or the choice of an option. */
export interface ApproveRequest {
  /** The fields of the approval's form. */
  form?: unknown
  comment?: string | null
  /** Of an approval with options: one of them. */
  choice?: string | null
}

/** A file that an attempt has stored beside its output. */
export interface AssetAnswer {
  path: string
  /** Bytes. */
  size: number | null
  /** Its media type. */
  type: string | null
  /** The id of its storage backend; null: the default. */
  backend: string | null
  /** The SHA-256 of its content, as we have read it; null: an earlier version stored it. */
  sha256: string | null
}

/** One attempt of a task run. */
export interface Attempt {
  number: number
  status: string
  worker: string | null
  codeVersion: number
  error: unknown
  errorCode: string | null
  startedAt: string | null
  finishedAt: string | null
  durationMs: number | null
  /** When an HTTP service took its dispatch. */
  dispatchedAt: string | null
  /** Where its log is in storage, once it has written one; null: it has none. */
  logsPath: string | null
}

/** The bundle that vouches for a version of a pipeline: the newest, if there are several. */
export interface BundleOrigin {
  id: string
  version: string
  keyIds: Array<string>
}

/** Cancel a run. */
export interface CancelRunRequest {
  reason?: string | null
  /** Nothing follows: no step is taken back, and `finally` does not run. */
  now?: boolean
}

/** One attempt that ended badly. */
export interface DeadAttempt {
  attempt: number
  status: string
  worker: string | null
  codeVersion: number | null
  /** With its traceback. */
  error: unknown
  errorCode: string | null
  startedAt: string | null
  finishedAt: string | null
}

/** A task run that failed and has no attempt left. `pipelineRunId` and `pipelineId` are null for a standalone task. */
export interface DeadLetter {
  id: string
  /** The same as `id`. */
  dlqId: string
  taskRunId: string
  taskId: string
  pipelineRunId: string | null
  pipelineId: string | null
  stepId: string
  kind: "task" | "map" | "item" | "choice" | "transform" | "wait" | "body"
  mapIndex: number | null
  status: "open" | "retried" | "discarded"
  /** How the last attempt ended. */
  outcome: "failed" | "timeout"
  /** The task's code version when it failed. */
  codeVersion: number
  codeHash: string
  attempts: number
  /** The run's input. In lists, large inputs are left out. */
  input: unknown
  /** Where an input over 32 KiB lies. */
  inputPath: string | null
  /** Without its traceback; `GET /api/dlq/{id}` shows that. */
  error: unknown
  errorCode: string
  fingerprint: string
  failedAt: string
  /** The same as `failedAt`. */
  createdAt: string
  retriedAt: string | null
  /** The run that went on; null for a standalone task. */
  retryRunId: string | null
  retryTaskRunId: string | null
  discardedAt: string | null
  discardReason: string | null
}

/** A dead letter in full. */
export interface DeadLetterDetail {
  id: string
  /** The same as `id`. */
  dlqId: string
  taskRunId: string
  taskId: string
  pipelineRunId: string | null
  pipelineId: string | null
  stepId: string
  kind: "task" | "map" | "item" | "choice" | "transform" | "wait" | "body"
  mapIndex: number | null
  status: "open" | "retried" | "discarded"
  /** How the last attempt ended. */
  outcome: "failed" | "timeout"
  /** The task's code version when it failed. */
  codeVersion: number
  codeHash: string
  attempts: number
  /** The run's input. In lists, large inputs are left out. */
  input: unknown
  /** Where an input over 32 KiB lies. */
  inputPath: string | null
  /** Without its traceback; `GET /api/dlq/{id}` shows that. */
  error: unknown
  errorCode: string
  fingerprint: string
  failedAt: string
  /** The same as `failedAt`. */
  createdAt: string
  retriedAt: string | null
  /** The run that went on; null for a standalone task. */
  retryRunId: string | null
  retryTaskRunId: string | null
  discardedAt: string | null
  discardReason: string | null
  /** The item, if the task run is an item of a map. */
  item: unknown
  /** Every attempt, oldest first. */
  previousAttempts: Array<DeadAttempt>
  currentCodeVersion: number | null
  currentCodeHash: string | null
  /** Whether the task's code changed since it failed. */
  codeChanged: boolean
  taskIsRegistered: boolean
  /** null once the run's history was dropped. */
  runStatus: RunStatus | null
  /** null once the run's history was dropped. */
  taskRunStatus: TaskStatus | null
}

/** What was edited for a rerun. It holds for this run alone. */
export interface EditsAnswer {
  /** By step, the params in place of those that the version has. */
  params: Record<string, Record<string, unknown>>
  /** Reused steps that have read another input than this run's: that of a run before. */
  otherInput: Array<string>
}

/** What a run does after its steps have ended, before it ends: its `finally`, or to take steps back. */
export interface EndingAnswer {
  /** What runs now: `finally`, or `compensate:` and the id of a step. */
  part: string
  /** The step that is taken back; null: `finally` runs. */
  stepId: string | null
  /** The run that does it. */
  runId: string
  /** Of that run; null: it starts next. */
  runStatus: RunStatus | null
  /** How the run ends then, unless its `finally` fails. */
  endsAs: RunStatus
  /** With which error it ends then, as `error` of the run; null: with none. */
  error: unknown
  /** All that runs, one after the other. */
  parts: Array<string>
  /** When the run ends at the latest. */
  timeoutAt: string
}

/** What followed the last step of a run, or follows it. */
export interface EndingPart {
  /** `finally`, or `compensate:` and the id of a step. */
  part: string
  /** The step that it takes back; null: `finally`. */
  stepId: string | null
  /** The run that does it; null: none has started. */
  runId: string | null
  runStatus: RunStatus | null
}

/** A task run of which the last attempt failed. */
export interface FailedTaskRun {
  stepId: string
  taskRunId: string
  mapIndex: number | null
  attempt: number
  error: StateError | null
  /** Whether it completed all the same: another run took care of the error. */
  handled: boolean
  /** When it ended. */
  at: string | null
}

/** One error in one field. */
export interface Fault {
  /** Path into the request, e.g. `tasks[0].id`; empty: the whole request. */
  field: string
  message: string
  code: string
  /** What the field should be, if known. */
  expected?: string
}

/** An error or warning about a graph, with the steps it concerns. */
export interface GraphFault {
  code: string
  message: string
  steps: Array<string>
}

/** The health of the deployment, while PostgreSQL answers. */
export interface Health {
  status: "ok" | "degraded"
  /** The fault, if requests are answered and something else is wrong. */
  degraded: string | null
  lastTickAt: string | null
  database: "connected"
  /** Chores of the tick that failed at several ticks in a row; `pipeweave doctor` says more. */
  failingChores: Array<string>
  maintenance: HealthMaintenance
  canAcceptTasks: boolean
  maintenanceMode: string
  /** As in `maintenance`. Absent without a token that may read every tenant. */
  runningTasks?: number | null
  timestamp: string
}

/** The maintenance mode as everyone may see it; more with a token that may read every tenant. */
export interface HealthMaintenance {
  mode: "running" | "waiting_for_maintenance" | "maintenance"
  modeChangedAt: string
  /** null without such a token. */
  reason: string | null
  message: string
  /** Absent without such a token. */
  canEnterMaintenance?: boolean | null
  /** Task runs of all tenants that wait for a worker, a limit, their next attempt or something external. Absent without such a token. */
  pendingTasks?: number | null
  /** Task runs of all tenants that a worker has claimed. Absent without such a token. */
  runningTasks?: number | null
}

/** Why the last try of a hook failed. */
export interface HookError {
  code: string
  message: string
}

/** What a hook of a pipeline did after a run had ended, or an approval had begun to wait. */
export interface HookFire {
  /** The same for each try of a call. */
  id: string
  hook: "onSuccess" | "onPartial" | "onFailure" | "onWaiting"
  /** The pipeline that it starts. */
  pipelineId: string | null
  /** The URL that it calls. */
  url: string | null
  /** `waiting`: it is tried at `dueAt`; `failed`: it is not tried again. */
  outcome: "waiting" | "fired" | "failed" | "skipped"
  /** Tries of a call. */
  attempts: number
  /** Why it was skipped: `LOOP`, or `over`. */
  reason: string | null
  /** Of the last try. */
  error: HookError | null
  /** The run that it started. */
  runId: string | null
  createdAt: string
  dueAt: string | null
  /** When it was over. */
  firedAt: string | null
}

/** How many items of a map ran at a time, in equal bins; times are ms since the run's creation. */
export interface Lane {
  fromMs: number
  toMs: number
  /** By bin: how many ran on average. */
  running: Array<number>
  /** By bin: how many attempts ended badly. */
  failed: Array<number>
}

/** A pipeline in its current version, with its newest runs. */
export interface ListedPipeline {
  id: string
  description: string | null
  /** The current one, which triggers take. */
  version: number
  /** The newest one: the current one, unless another was promoted. */
  latestVersion: number
  specHash: string
  source: "decorator" | "document" | "derived" | "api"
  stepCount: number
  failureMode: "fail-fast" | "continue" | "partial-merge"
  createdAt: string
  updatedAt: string
  /** Newest first, as many as `recent` asks for. */
  recentRuns: Array<RecentRun>
}

/** Replaces a map's output that is too large to show; its task runs of kind `item` have the parts. */
export interface MapReference {
  items: number
  /** Bytes of JSON. */
  size: number
}

/** A run after it was paused or resumed. */
export interface PausedRun {
  id: string
  tenant: string
  pipelineId: string
  pipelineVersion: number
  status: RunStatus
  failureMode: "fail-fast" | "continue" | "partial-merge"
  priority: number | null
  metadata: Record<string, unknown> | null
  /** What began it; null for runs of earlier versions. */
  triggeredBy: TriggeredByAnswer | null
  /** The run that this one repeats. */
  rerunOf: string | null
  /** The step that the rerun began at; null: the beginning. */
  rerunFrom: string | null
  /** The run that it belongs to; null for most. */
  parentRunId: string | null
  /** The first run above it; null without a parent. */
  rootRunId: string | null
  /** How many runs are above it. */
  depth: number
  /** The body of a step that it runs, such as `review.loop`; null: the whole pipeline. */
  body: string | null
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
  taskRunCount: number
  error: unknown
  errorCode: string | null
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
  /** The same as `startedAt`. */
  startedUtc: string | null
  /** The same as `finishedAt`. */
  endedUtc: string | null
  durationMs: number | null
  /** When it was paused; null: it is not. A paused run without a run slot stays `pending`. */
  pausedAt: string | null
  /** The name of the token that paused it. */
  pausedBy: string | null
  pauseReason: string | null
  /** The status, or a finer word taken from the latest event. */
  phase: string
  /** For how long it was over before retries reopened it: no part of its duration. */
  overMs: number
  /** What it does after its steps have ended; null unless its status is `error_handling`. */
  ending: EndingAnswer | null
  /** What follows its last step, or followed it, one after the other; empty for most. */
  endingParts: Array<EndingPart>
  input: unknown
  inputRef: Reference | null
  inputsHash: string
  /** What a rerun edited for this run alone; null for most. */
  edits: EditsAnswer | null
  /** Task runs by status. */
  counts: Record<string, number>
  /** In the order of the pipeline. */
  steps: Array<StepProgress>
  /** The first task runs, as many as `taskRuns` asked for. */
  taskRuns: Array<TaskRun>
  /** Send it as `cursor` to `/task-runs` to get the next ones. */
  taskRunsCursor: string | null
  /** What the pipeline's hooks did for its ends and approvals. */
  hooks: Array<HookFire>
  /** Steps that completed before a step right ahead of them was repaired by a retried dead letter: they have not seen its result. Run such steps again by a rerun from them. */
  ranBefore: Array<RanBefore>
  /** What the pipeline returns (`output`), else the output of its end step, or of several end steps by step; null unless the run is `completed` or `partial`. */
  output: unknown
  /** By step, the outputs too large to show: what refers to them in `output` is null. */
  outputRefs: Record<string, Reference | MapReference>
  /** true: it was so before, and nothing was changed. */
  isRepeated: boolean
}

/** One version of a pipeline. */
export interface Pipeline {
  id: string
  description: string | null
  version: number
  /** Triggers take it. */
  currentVersion: number
  latestVersion: number
  /** null: the newest version is the current one. */
  promotedVersion: number | null
  specHash: string
  source: "decorator" | "document" | "derived" | "api"
  stepCount: number
  failureMode: "fail-fast" | "continue" | "partial-merge"
  createdAt: string
  /** The steps that wait for no other step. */
  entrySteps: Array<string>
  /** The steps that no other step waits for. */
  endSteps: Array<string>
  /** The tasks of its entry steps. */
  entryTasks: Array<string>
  /** The tasks of its end steps. */
  endTasks: Array<string>
  /** The bundle that vouches for this version. */
  bundle: BundleOrigin | null
  /** The normalised document: every step with its `needs`. */
  spec: Record<string, unknown>
}

/** One pipeline. */
export interface PipelineAnswer {
  pipeline: Pipeline
}

/** A pipeline as a document: steps in order; a step without `needs` follows the one before it. */
export interface PipelineDocument {
  /** Absent: the id in the path. Both must agree. */
  id?: string
  description?: unknown
  failureMode?: "fail-fast" | "continue" | "partial-merge"
  priority?: unknown
  /** A run's time limit: seconds, or a text such as 30s, 5m, 2h. */
  timeout?: null | number | string
  /** The longest time in which nothing happens in a run. */
  idleTimeout?: null | number | string
  /** `timeout` in a normalised document. */
  timeoutMs?: unknown
  /** `idleTimeout` in a normalised document. */
  idleTimeoutMs?: unknown
  /** `pinned`: steps call only the code that their tasks had when the run began. */
  code?: "any" | "pinned" | null
  /** The fields of the run's input. Absent: it is not checked. */
  inputSchema?: null | Record<string, unknown>
  /** The output of a run, with references to steps. Absent: that of the end step. */
  output?: unknown
  /** Values by name for expressions; may hold expressions over the input. */
  variables?: unknown
  /** The first that fits runs when a step without `onError` has failed. */
  errorHandlers?: unknown
  /** Runs when all steps have ended, however the run ends. */
  finally?: string | Record<string, unknown> | null
  /** The time limit of all that follows the last step. */
  finallyTimeout?: null | number | string
  /** `finallyTimeout` in a normalised document. */
  finallyTimeoutMs?: unknown
  /** When its runs begin by themselves: a cron line, or the members of a schedule. */
  schedule?: null | string | Record<string, unknown>
  /** For steps that say nothing themselves. */
  onExhausted?: "fail" | "pause" | null
  /** How many of its runs are under way at once: a number, or for each key. */
  concurrency?: null | number | Record<string, unknown>
  /** How often its runs start, as 100/m, in all or for each key. */
  rateLimit?: null | string | Record<string, unknown>
  /** The same as `rateLimit`. */
  rate_limit?: unknown
  /** What follows a run that ends like this: pipelines, and URLs that are called. */
  onSuccess?: null | string | Record<string, unknown> | Array<string | Record<string, unknown>>
  /** What follows a run that ends like this: pipelines, and URLs that are called. */
  onPartial?: null | string | Record<string, unknown> | Array<string | Record<string, unknown>>
  /** What follows a run that ends like this: pipelines, and URLs that are called. */
  onFailure?: null | string | Record<string, unknown> | Array<string | Record<string, unknown>>
  /** What follows a run that ends like this: pipelines, and URLs that are called. */
  onWaiting?: null | string | Record<string, unknown> | Array<string | Record<string, unknown>>
  /** Default values of fields of the run's input. */
  defaults?: Record<string, unknown>
  steps: Array<Record<string, unknown>>
}

/** Queue one task outside any pipeline. */
export interface QueueTaskRequest {
  taskId: string
  /** Any JSON value; {} when absent. */
  input?: unknown
  /** Absent: the priority of the task. */
  priority?: number | null
  metadata?: Record<string, unknown> | null
  /** If another task run of the task has this key and is open, or has a result that has not expired, the answer is that task run, whatever the input. */
  idempotencyKey?: string | null
}

/** A standalone task run that was accepted. */
export interface Queued {
  /** The task run: see `/api/task-runs/{id}`. */
  runId: string
  status: TaskStatus
  taskId: string
  inputPath: string | null
  /** false: it is an earlier task run with the same idempotency key. */
  created: boolean
}

/** A step that completed before steps ahead of it were repaired. */
export interface RanBefore {
  stepId: string
  /** Those steps, right ahead of it, whose new results it has not seen. */
  repaired: Array<string>
}

/** One reason why a task run does not run yet. Further members are the numbers in its text. */
export interface Reason {
  /** A stable word for this kind of reason. */
  code: string
  text: string
}

/** One of the newest runs of a pipeline. */
export interface RecentRun {
  id: string
  status: RunStatus
  createdAt: string
  durationMs: number | null
}

/** The retry of many dead letters. */
export interface Redrive {
  id: string
  /** `completed`: everything was retried, or skipped. `stopped`: it stopped by itself. */
  status: "running" | "completed" | "cancelled" | "stopped"
  filter: Record<string, unknown>
  /** Dead letters that were open when the redrive was created. */
  total: number
  retried: number
  /** Dead letters that could not be retried and are still open. */
  skipped: number
  createdAt: string
  finishedAt: string | null
  durationMs: number | null
  createdBy: string | null
  limit: number | null
  canary: number | null
  /** Since then the others follow. */
  canaryEndedAt: string | null
  perSecond: number | null
  stopOnSameFingerprint: number | null
  stoppedBecause: string | null
  /** null in lists. */
  outcomes: RedriveOutcomes | null
}

/** What became of the retries of a redrive, of the newest 2,000. */
export interface RedriveOutcomes {
  completed: number
  failedAgain: number
  /** Of those that failed again: with the same fingerprint. */
  sameAgain: number
  /** Cancelled or skipped, or their history is gone. */
  endedOtherwise: number
  unended: number
}

/** Where a large value is in storage, its size and its hash. */
export interface Reference {
  /** null: it is in its row; the answer has too many values to show it. */
  path: string | null
  /** The id of its storage backend; null: the default, or it is in its row. */
  backend: string | null
  /** Bytes of JSON. */
  size: number
  hash: string
}

/** A no. */
export interface RejectRequest {
  /** The fields of the approval's form. */
  form?: unknown
  comment?: string | null
}

/** A rerun that was accepted. */
export interface RerunAnswer {
  /** The new run. */
  pipelineRunId: string
  tenant: string
  pipelineId: string
  pipelineVersion: number
  status: RunStatus
  rerunOf: string
  fromStep: string | null
  /** Steps that do not run: they have the results of the run. */
  reusedSteps: Array<string>
  /** What is edited for the new run alone; null: nothing. */
  edits: EditsAnswer | null
  /** false: an earlier request with this run token created the rerun. */
  created: boolean
  /** Errors of the input by pipeline and entry task. */
  validationWarnings?: Record<string, Array<Fault>>
}

/** Run a run again, that has ended. */
export interface RerunRequest {
  /** The step to begin at. Absent: every step runs, and nothing is reused. */
  fromStep?: string | null
  /** Another input. Absent: that of the run. */
  input?: unknown
  /** Other params of the step to begin at, for the new run alone; they may hold expressions. Absent: those that it had in the run. null: those of the version. */
  params?: Record<string, unknown> | null
  /** `same`, `latest`, or the number of a version. */
  version?: "same" | "latest" | number
  /** A second rerun of the run with the same token, step, input, params and version is the first. */
  runToken?: string | null
  /** What errors in the input do, as for a trigger. */
  validationMode?: "strict" | "warn" | "none" | null
}

/** A dead letter was retried. */
export interface RetriedAnswer {
  /** The run that continues, or the new task run of a standalone task. */
  newRunId: string
  taskRunId: string
  status: "queued"
  /** The code version that the retry runs. */
  codeVersion: number
}

/** Retry every open dead letter that matches all given filters; `{}` retries every open one. */
export interface RetryAllRequest {
  pipelineId?: string | null
  taskId?: string | null
  errorCode?: string | null
  /** Similar errors have the same fingerprint. */
  fingerprint?: string | null
  /** Failed at this time or later. */
  since?: string | null
  /** Failed before this time. */
  until?: string | null
  /** Only those of this run. */
  pipelineRunId?: string | null
  /** Only that of this task run. */
  taskRunId?: string | null
  /** The largest number that is retried. */
  limit?: number | null
  /** Retry so many first, and the others only when these have ended well enough. */
  canary?: number | null
  /** Retries in a second, at most. */
  perSecond?: number | null
  /** Stop when more than this share of the retries that ended (percent) failed again with the same fingerprint: after the canary, and of five retries or more. Absent: 50 after a canary, and never without one. */
  stopOnSameFingerprint?: number | null
}

/** One execution of a pipeline. */
export interface Run {
  id: string
  tenant: string
  pipelineId: string
  pipelineVersion: number
  status: RunStatus
  failureMode: "fail-fast" | "continue" | "partial-merge"
  priority: number | null
  metadata: Record<string, unknown> | null
  /** What began it; null for runs of earlier versions. */
  triggeredBy: TriggeredByAnswer | null
  /** The run that this one repeats. */
  rerunOf: string | null
  /** The step that the rerun began at; null: the beginning. */
  rerunFrom: string | null
  /** The run that it belongs to; null for most. */
  parentRunId: string | null
  /** The first run above it; null without a parent. */
  rootRunId: string | null
  /** How many runs are above it. */
  depth: number
  /** The body of a step that it runs, such as `review.loop`; null: the whole pipeline. */
  body: string | null
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
  taskRunCount: number
  error: unknown
  errorCode: string | null
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
  /** The same as `startedAt`. */
  startedUtc: string | null
  /** The same as `finishedAt`. */
  endedUtc: string | null
  durationMs: number | null
  /** When it was paused; null: it is not. A paused run without a run slot stays `pending`. */
  pausedAt: string | null
  /** The name of the token that paused it. */
  pausedBy: string | null
  pauseReason: string | null
}

/** A run in full. */
export interface RunDetail {
  id: string
  tenant: string
  pipelineId: string
  pipelineVersion: number
  status: RunStatus
  failureMode: "fail-fast" | "continue" | "partial-merge"
  priority: number | null
  metadata: Record<string, unknown> | null
  /** What began it; null for runs of earlier versions. */
  triggeredBy: TriggeredByAnswer | null
  /** The run that this one repeats. */
  rerunOf: string | null
  /** The step that the rerun began at; null: the beginning. */
  rerunFrom: string | null
  /** The run that it belongs to; null for most. */
  parentRunId: string | null
  /** The first run above it; null without a parent. */
  rootRunId: string | null
  /** How many runs are above it. */
  depth: number
  /** The body of a step that it runs, such as `review.loop`; null: the whole pipeline. */
  body: string | null
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
  taskRunCount: number
  error: unknown
  errorCode: string | null
  createdAt: string
  startedAt: string | null
  finishedAt: string | null
  /** The same as `startedAt`. */
  startedUtc: string | null
  /** The same as `finishedAt`. */
  endedUtc: string | null
  durationMs: number | null
  /** When it was paused; null: it is not. A paused run without a run slot stays `pending`. */
  pausedAt: string | null
  /** The name of the token that paused it. */
  pausedBy: string | null
  pauseReason: string | null
  /** The status, or a finer word taken from the latest event. */
  phase: string
  /** For how long it was over before retries reopened it: no part of its duration. */
  overMs: number
  /** What it does after its steps have ended; null unless its status is `error_handling`. */
  ending: EndingAnswer | null
  /** What follows its last step, or followed it, one after the other; empty for most. */
  endingParts: Array<EndingPart>
  input: unknown
  inputRef: Reference | null
  inputsHash: string
  /** What a rerun edited for this run alone; null for most. */
  edits: EditsAnswer | null
  /** Task runs by status. */
  counts: Record<string, number>
  /** In the order of the pipeline. */
  steps: Array<StepProgress>
  /** The first task runs, as many as `taskRuns` asked for. */
  taskRuns: Array<TaskRun>
  /** Send it as `cursor` to `/task-runs` to get the next ones. */
  taskRunsCursor: string | null
  /** What the pipeline's hooks did for its ends and approvals. */
  hooks: Array<HookFire>
  /** Steps that completed before a step right ahead of them was repaired by a retried dead letter: they have not seen its result. Run such steps again by a rerun from them. */
  ranBefore: Array<RanBefore>
  /** What the pipeline returns (`output`), else the output of its end step, or of several end steps by step; null unless the run is `completed` or `partial`. */
  output: unknown
  /** By step, the outputs too large to show: what refers to them in `output` is null. */
  outputRefs: Record<string, Reference | MapReference>
}

/** One event of a run. */
export interface RunEvent {
  seq: number
  at: string
  type: string
  taskRunId: string | null
  attempt: number | null
  /** Who wanted it (a token, a schedule), or the worker that did it; null: it follows from the events before it. */
  actor: string | null
  /** Its cause, where the type does not say it, and its results. */
  data: Record<string, unknown>
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
}

/** Numbers of a run. */
export interface RunMetrics {
  /** null while it is open. */
  totalDurationMs: number | null
  stepCount: number
  taskRunCount: number
  /** By step (ms), of those that have ended. */
  stepDurations: Record<string, number>
  /** Attempts beyond the first, of steps and items. */
  retryCount: number
  /** Attempts that failed, timed out or were lost. */
  errorCount: number
  /** Task runs that took over the result of another. */
  cacheHits: number
  /** Task runs with an idempotency key that had to run. */
  cacheMisses: number
}

/** The input and options of one run. */
export interface RunRequest {
  /** Any JSON value; {} when absent. */
  input?: unknown
  /** Absent: the failure mode of the pipeline. */
  failureMode?: "fail-fast" | "continue" | "partial-merge" | null
  /** Absent: the priority of the pipeline, else of each task. */
  priority?: number | null
  /** Of all steps without a queue of their own, also in the runs inside of it. Absent: those of the tasks. Tasks of HTTP services have no queues. */
  queue?: string | null
  /** Labels of the workers that may call its steps, also in the runs inside of it, beside those that the steps and the tasks require. Of one label, the step's value counts, then this one. Tasks of HTTP services are not concerned. */
  requires?: Record<string, unknown> | null
  metadata?: Record<string, unknown> | null
  /** A second trigger with the same token, pipeline and input returns the run of the first. */
  runToken?: string | null
}

/** The whole state of a run, of one moment. Its size is bounded: a map is counts. */
export interface RunState {
  id: string
  tenant: string
  pipelineId: string
  pipelineVersion: number
  /** The body of a step that it runs; null: the whole pipeline. */
  body: string | null
  status: RunStatus
  phase: string
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
  inputsHash: string
  edits: EditsAnswer | null
  trigger: StateTrigger
  /** What params can refer to besides steps: the `input`, and the variables of the pipeline by name. Those over an input that is by reference are left out. */
  variables: Record<string, unknown>
  /** By step, in the order of the pipeline. */
  steps: Record<string, StepState>
  /** false: the rows of some steps are no longer in the database. */
  isComplete: boolean
  error: RunStateError | null
  /** What failed for good, oldest first: steps, and the first ten items of each map; at most 100. */
  errors: Array<FailedTaskRun>
  metadata: StateMetadata
  metrics: RunMetrics
}

/** Why a run ended badly. */
export interface RunStateError {
  code: string
  message: string | null
  /** The limit that the run exceeded, if it did. */
  timeoutMs: number | null
}

/** The status of a run. */
export type RunStatus = "pending" | "running" | "paused" | "error_handling" | "completed" | "partial" | "failed" | "cancelled"

/** Why a run does not go on: the reasons of its open task runs, summed. */
export interface RunWhyAnswer {
  runId: string
  /** Task runs that have not ended. */
  open: number
  running: number
  /** Open task runs that do not run. */
  waiting: number
  /** Such as `431 wait: 400 for a slot of resize, 31 for predecessors`. */
  summary: string | null
  /** What holds the run itself: its pause. Without open task runs it waits for nothing else. */
  reason: Reason | null
  /** Those first that hold most task runs. */
  reasons: Array<SummedReason>
  /** false: there are further groups, which were only counted. */
  isComplete: boolean
  /** Steps whose params were edited for this run alone. */
  editedParams: Array<string>
  /** Reused steps that have read another input than the run's. */
  otherInput: Array<string>
}

/** A signal was taken in. */
export interface SentSignal {
  signalId: string
  /** Whether a step that waited for it has taken it already. */
  taken: boolean
  /** Whether it came before, with the same Idempotency-Key. */
  isRepeated: boolean
}

/** A registered worker program. */
export interface Service {
  id: string
  kind: "python" | "http"
  version: string
  baseUrl: string | null
  /** The Celery queue of its tasks. */
  queue: string
  status: "active" | "inactive" | "disconnected"
  registeredAt: string
  lastHeartbeat: string
  /** When it last registered or answered, or a worker was alive. */
  lastSeen: string
  taskCount: number
  workerCount: number
  /** Processes of an HTTP service that have registered. */
  instanceCount: number
  /** How many of them take dispatches. */
  readyInstances: number
  /** How its dispatches say where values are: in an encrypted token, or as signed URLs. */
  storageAccess: "token" | "urls"
  tokenFormat: "sdk" | "pbkdf2"
  /** The URL that replaces what instances register; `peer`: the address that they register from; null: what they register. */
  baseUrlOverride: string | null
  /** When it was switched off; null: it is not. */
  disabledAt: string | null
}

/** An error, its message cut after 500 characters. */
export interface StateError {
  code: string
  type: string | null
  /** null where nothing failed, as of a step that was skipped. */
  kind: "STEP_EXECUTION" | "TIMEOUT" | "MAX_RETRIES_EXCEEDED" | "VALIDATION" | "EXPRESSION" | "PARALLEL" | "ADAPTER_NOT_FOUND" | "ASYNC" | null
  message: string | null
  retryable: boolean | null
  /** The limit that was exceeded, if one was. */
  timeoutMs: number | null
}

/** The items of a map. */
export interface StateItems {
  total: number
  /** Items by status. */
  counts: Record<string, number>
  /** The first ten that failed. */
  failed: Array<FailedTaskRun>
  /** All of them. */
  href: string
}

/** The times of a run, and what its trigger gave as metadata. */
export interface StateMetadata {
  createdAt: string
  startedAt: string | null
  /** The time of the latest event. */
  updatedAt: string
  completedAt: string | null
  /** Until its end, or its latest event. */
  durationMs: number | null
  custom: Record<string, unknown> | null
}

/** What began the run, and with which input. */
export interface StateTrigger {
  type: "api" | "schedule" | "webhook" | "event" | "rerun" | "redrive" | "transaction" | "parent" | null
  id: string | null
  actor: string | null
  /** The input; null if it is by reference. */
  payload: unknown
  payloadRef: Reference | null
  timestamp: string
}

/** The progress of one step. For a map, its items are counted; it is `failed` if an item of it ended the run, though its own task run was cancelled then. */
export interface StepProgress {
  id: string
  taskId: string
  taskRunId: string
  kind: "task" | "map" | "choice" | "transform" | "wait" | "body"
  status: TaskStatus
  /** The number of the latest attempt. */
  attempt: number
  maxAttempts: number
  progress: number | null
  progressMessage: string | null
  /** How many have ended, whatever their outcome. */
  done: number
  completed: number
  failed: number
  cancelled: number
  skipped: number
  /** 1, or the number of items of a map; 0 until that is known. */
  total: number
  /** Of its task: the one that it ran last, or would run. */
  codeVersion: number
  errorCode: string | null
  /** When the next attempt is due, while it waits for that. */
  dueAt: string | null
  /** The start of the first attempt. */
  startedAt: string | null
  finishedAt: string | null
  /** Of all attempts, with the waiting between them, without `overMs`. */
  durationMs: number | null
  /** For how long its run was over meanwhile, before a retried dead letter reopened it. */
  overMs: number
  /** The run that it started last: of a step that runs a pipeline or steps of its own, or of one whose error another run takes care of. Those of a map are at its items. */
  childRunId: string | null
  /** Of a loop: the round that it is in, or ended with, from 1. */
  round: number | null
}

/** One step. Times and numbers of a map are those of its own task run. */
export interface StepState {
  stepId: string
  taskRunId: string
  taskId: string
  kind: "task" | "map" | "choice" | "transform" | "wait" | "body"
  status: TaskStatus
  phase: "pending" | "running" | "success" | "failed" | "retrying" | "skipped" | "cancelled"
  /** Attempts that began; 0 for one that took a result over. */
  attempts: number
  maxAttempts: number
  retryCount: number
  progress: number | null
  worker: string | null
  /** When the next attempt is due, while it waits for that. */
  dueAt: string | null
  /** The start of the first attempt. */
  startedAt: string | null
  completedAt: string | null
  /** Of the last attempt. */
  durationMs: number | null
  /** The output, while the outputs before it are at most 2 MB together. */
  result: unknown
  /** Where any other output is. */
  resultRef: Reference | MapReference | null
  selectedNext: Array<string> | null
  error: StateError | null
  inputsHash: string | null
  outputsHash: string | null
  cachedFrom: string | null
  /** Of a step that runs a pipeline: the run that it started last. */
  childRunId: string | null
  /** Of a loop: the round that it is in, or ended with, from 1. */
  round: number | null
  items: StateItems | null
  logsRef: string
  metricsRef: string
}

/** The stored version that equals the sent document. */
export interface StoredAnswer {
  pipelineId: string
  version: number
  specHash: string
  isNew: boolean
  /** Steps whose task may take longer than the run, and those that run a pipeline which is not stored. */
  warnings?: Array<GraphFault>
}

/** Why task runs of one task wait, which wait in the same way. */
export interface SummedReason {
  /** How many of them there are. */
  count: number
  taskId: string
  status: TaskStatus
  kind: "task" | "map" | "item" | "choice" | "transform" | "wait" | "body"
  /** The one that was asked; `text` and `reasons` are about it. */
  taskRunId: string
  /** A stable word for the reason that has to be resolved first. */
  code: string
  text: string
  /** In the order in which they have to be resolved. */
  reasons: Array<Reason>
}

/** One step of one run, or one item of a map. */
export interface TaskRun {
  id: string
  stepId: string
  taskId: string
  kind: "task" | "map" | "item" | "choice" | "transform" | "wait" | "body"
  mapIndex: number | null
  mapCount: number | null
  status: TaskStatus
  attempt: number
  maxAttempts: number
  priority: number
  progress: number | null
  progressMessage: string | null
  worker: string | null
  codeVersion: number
  outputSize: number | null
  /** Without its traceback; `GET /api/task-runs/{id}` shows that. */
  error: unknown
  errorCode: string | null
  createdAt: string
  dueAt: string | null
  queuedAt: string | null
  startedAt: string | null
  finishedAt: string | null
  durationMs: number | null
  runId: string
}

/** A task run in full. `runId` and `pipelineId` are null for a standalone task. */
export interface TaskRunDetail {
  id: string
  stepId: string
  taskId: string
  kind: "task" | "map" | "item" | "choice" | "transform" | "wait" | "body"
  mapIndex: number | null
  mapCount: number | null
  status: TaskStatus
  attempt: number
  maxAttempts: number
  priority: number
  progress: number | null
  progressMessage: string | null
  worker: string | null
  codeVersion: number
  outputSize: number | null
  /** Without its traceback; `GET /api/task-runs/{id}` shows that. */
  error: unknown
  errorCode: string | null
  createdAt: string
  dueAt: string | null
  queuedAt: string | null
  startedAt: string | null
  finishedAt: string | null
  durationMs: number | null
  runId: string | null
  /** The run that it started last: where it runs a pipeline or steps of its own, or where another run takes care of its error. */
  childRunId: string | null
  /** Of a loop: the round that it is in, or ended with, from 1. */
  round: number | null
  pipelineId: string | null
  pipelineVersion: number | null
  inputSource: "run" | "params"
  input: unknown
  inputRef: Reference | null
  params: Record<string, unknown> | null
  /** Whether `params` hold for this run alone: its version has others. */
  isEdited: boolean
  /** Whether it was reused and has read the input of a run before, which is not `input`. */
  hasOtherInput: boolean
  item: unknown
  output: unknown
  outputRef: Reference | MapReference | null
  selectedNext: Array<string> | null
  /** `engine`: the engine decides the step, which has no task. */
  codeHash: string
  currentCodeVersion: number | null
  currentCodeHash: string | null
  /** Whether the task's code changed since the task run was queued. */
  codeChanged: boolean
  /** When an HTTP service took the dispatch of the present attempt. */
  dispatchedAt: string | null
  heartbeatAt: string | null
  /** The files beside its output, by key. */
  assets: Record<string, AssetAnswer>
  /** Where the log of the present attempt is in storage, once it has written one; null: none. */
  logsPath: string | null
  idempotencyKey: string | null
  /** The task run whose result this one has: that with the same idempotency key, or in a rerun that of the run before. */
  cachedFrom: string | null
  /** The task run with the same idempotency key that this one waits for. */
  awaits: string | null
  metadata: Record<string, unknown> | null
  /** What began its run; null for runs of earlier versions. */
  triggeredBy: TriggeredByAnswer | null
  /** The trace of the run: that of the trigger's `traceparent`, else the UUID of the run. */
  traceId: string
  attempts: Array<Attempt>
}

/** The status of a task run. */
export type TaskStatus = "pending" | "ready" | "queued" | "running" | "waiting" | "completed" | "failed" | "timeout" | "cancelled" | "skipped"

/** What the steps of a run did when. */
export interface TimelineAnswer {
  /** Send it as `cursor` to get the next page; null on the last page. */
  nextCursor: string | null
  runId: string
  pipelineId: string
  status: RunStatus
  isOpen: boolean
  createdAt: string
  /** When the run was admitted; null: it was not. */
  startedMs: number | null
  /** Until its end, or until now. */
  totalMs: number
  /** In the order of the pipeline. */
  steps: Array<TimelineStep>
}

/** A step did one thing, or waited for one thing. Times are ms since the run was created. */
export interface TimelineBar {
  kind: "work" | "failedWork" | "items" | "asleep" | "approval" | "signal" | "child" | "outside" | "queue" | "taskLimit" | "tenantLimit" | "pause" | "retryDelay" | "sameKey" | "predecessors" | "ended"
  fromMs: number
  toMs: number
  attempt: number
  /** Of an attempt that ended badly. */
  errorCode: string | null
}

/** A step of a run. Where there is no bar, it waited for its predecessors, or was over. */
export interface TimelineStep {
  stepId: string
  taskRunId: string
  taskId: string
  kind: "task" | "map" | "choice" | "transform" | "wait" | "body"
  status: TaskStatus
  attempt: number
  errorCode: string | null
  mapCount: number | null
  /** Of a step that waits for people or signals: as the pipeline names them; of one that runs a pipeline: that one. */
  waitsFor: string | null
  /** Steps of the longest way to it. */
  level: number
  /** Whether it is on the critical path, as the ledger follows it. */
  isCritical: boolean
  /** In their order; the last 200. */
  bars: Array<TimelineBar>
  /** Of a map that was laid out, while the maps up to it on the page have no more than 200,000 items together; `GET …/steps/{step}/items?view=lane` has any. */
  lane: Lane | null
}

/** A run that was accepted. */
export interface TriggerAnswer {
  pipelineRunId: string
  tenant: string
  pipelineVersion: number
  status: RunStatus
  /** The path of a large input in storage; null: the input is in the run's row. */
  inputPath: string | null
  entryTasks: Array<string>
  queuedTasks: Array<string>
  /** false: an earlier trigger with this run token and input created the run, or this run was skipped. */
  created: boolean
  /** true: the pipeline starts no second run of this key, and this is the one that is open. */
  skipped?: boolean
  /** Errors of the input by pipeline and entry task. */
  validationWarnings?: Record<string, Array<Fault>>
}

/** Runs that were accepted. */
export interface TriggerBatchAnswer {
  /** One entry for each run of the request, in the same order. */
  runs: Array<TriggerAnswer>
}

/** Start a run. */
export interface TriggerRequest {
  /** Any JSON value; {} when absent. */
  input?: unknown
  /** Absent: the failure mode of the pipeline. */
  failureMode?: "fail-fast" | "continue" | "partial-merge" | null
  /** Absent: the priority of the pipeline, else of each task. */
  priority?: number | null
  /** Of all steps without a queue of their own, also in the runs inside of it. Absent: those of the tasks. Tasks of HTTP services have no queues. */
  queue?: string | null
  /** Labels of the workers that may call its steps, also in the runs inside of it, beside those that the steps and the tasks require. Of one label, the step's value counts, then this one. Tasks of HTTP services are not concerned. */
  requires?: Record<string, unknown> | null
  metadata?: Record<string, unknown> | null
  /** A second trigger with the same token, pipeline and input returns the run of the first. */
  runToken?: string | null
  /** Of the pipeline. Absent: the current one, which was promoted or is the newest. */
  version?: number | null
  /** What errors in the input do. Absent: errors of the pipeline's `inputSchema` refuse the run, those of the entry tasks' input schemas are warnings. `strict`: both refuse; `warn`: both are warnings; `none`: no check. */
  validationMode?: "strict" | "warn" | "none" | null
}

/** What began a run. */
export interface TriggeredByAnswer {
  kind: "api" | "schedule" | "webhook" | "event" | "rerun" | "redrive" | "transaction" | "parent"
  /** The schedule, webhook, run or dead letter; null for a request. */
  id: string | null
  /** The name of the access token, if one is known. */
  actor: string | null
}

/** One person's vote on an approval. */
export interface Vote {
  /** `approve`, `reject`, or one of the options. */
  choice: string
  /** The name of the person's token. */
  by: string | null
  at: string
  comment: string | null
  /** What the person filled in. */
  form: unknown
}

/** A step that waits for a time, a signal, people, or another system. */
export interface Wait {
  /** The id of the wait, too. */
  taskRunId: string
  runId: string
  pipelineId: string | null
  stepId: string
  kind: "timer" | "signal" | "approval" | "callback" | "poll" | "child"
  /** The signals that end it. */
  names: Array<string>
  since: string
  /** When a sleep ends. */
  wakesAt: string | null
  /** When it ends if nothing comes before. */
  timeoutAt: string | null
  /** Whether it completes with `default` then; else it fails. */
  hasDefault: boolean
  default: unknown
  title: string | null
  context: unknown
  /** The schema of the fields that who decides fills in. */
  form: unknown
  /** Who may decide; empty: everybody with the scope. */
  assignees: Array<string>
  /** How many people must agree. */
  needs: number | null
  /** What is chosen from, in place of yes and no. */
  options: Array<string>
  /** Whether who began the run cannot decide. */
  fourEyes: boolean
  /** Of a poll: how often its URL was asked. */
  tries: number | null
  /** Of a poll: how often it is asked at most. */
  maxTries: number | null
  /** Of a poll: what the URL answered that was not final. */
  lastAnswer: string | null
  votes: Array<Vote>
  /** Whether the caller may decide. */
  isMine: boolean
}

/** The step behind a wait, after it was changed. */
export interface WaitState {
  taskRunId: string
  /** `waiting` while further people must agree. */
  status: TaskStatus
  attempt: number
}
