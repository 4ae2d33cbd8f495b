// The types of the package. Those of requests and answers are in documents.d.ts.
import type { ApproveRequest, CancelRunRequest, DeadLetter, DeadLetterDetail, Health, ListedPipeline, Pipeline, PipelineAnswer, PipelineDocument, PausedRun, Queued, QueueTaskRequest, Redrive, RejectRequest, RerunAnswer, RerunRequest, RetriedAnswer, RetryAllRequest, Run, RunDetail, RunEvent, RunRequest, RunState, RunWhyAnswer, SentSignal, Service, StoredAnswer, TaskRun, TaskRunDetail, TimelineAnswer, TriggerAnswer, TriggerBatchAnswer, TriggerRequest, Wait, WaitState } from './documents.js'

export type * from './documents.js'

/** A run, what `trigger` or `rerun` answered, or the id of a run. */
export type RunReference = string | { id: string } | { pipelineRunId: string }

/** Filters of a list, as the API names them: texts, numbers, dates, or lists of these. */
export type Filters = Record<string, unknown>

export interface ClientOptions {
  /** The API's URL; PIPEWEAVE_ORCHESTRATOR_URL by default. */
  url?: string
  /** A bearer token; PIPEWEAVE_API_TOKEN by default. */
  token?: string
  /** Only needed for a token that is valid for several tenants; PIPEWEAVE_TENANT by default. */
  tenant?: string
  /** Milliseconds without an answer after which a request throws `Unavailable`; 30,000 by default. */
  timeoutMs?: number
}

/** A client of one orchestrator for one tenant. Methods return the API's documents unchanged. */
export class Client {
  constructor(options?: ClientOptions)
  readonly dlq: DeadLetters
  request(method: string, path: string, options?: { query?: Filters; body?: unknown }): Promise<unknown>
  trigger(pipelineId: string, input?: unknown, options?: Omit<TriggerRequest, 'input'>): Promise<TriggerAnswer>
  triggerBatch(pipelineId: string, runs: RunRequest[], options?: { validationMode?: string }): Promise<TriggerBatchAnswer>
  run(run: RunReference, options?: { load?: boolean }): Promise<RunDetail>
  runs(filters?: Filters): AsyncGenerator<Run>
  wait(run: RunReference, options?: { timeoutMs?: number; check?: boolean }): Promise<RunDetail>
  state(run: RunReference): Promise<RunState>
  timeline(run: RunReference): Promise<TimelineAnswer>
  why(run: RunReference): Promise<RunWhyAnswer>
  events(run: RunReference, filters?: Filters): AsyncGenerator<RunEvent>
  taskRuns(run: RunReference, filters?: Filters): AsyncGenerator<TaskRun>
  taskRun(taskRunId: string, options?: { load?: boolean }): Promise<TaskRunDetail>
  cancel(run: RunReference, options?: CancelRunRequest): Promise<RunDetail>
  pauseRun(run: RunReference, options?: { reason?: string }): Promise<PausedRun>
  resumeRun(run: RunReference): Promise<PausedRun>
  rerun(run: RunReference, options?: RerunRequest): Promise<RerunAnswer>
  signal(run: RunReference, name: string, payload?: unknown, options?: { once?: string }): Promise<SentSignal>
  signalByToken(pipelineId: string, runToken: string, name: string, payload?: unknown, options?: { once?: string }): Promise<SentSignal>
  waits(filters?: Filters): AsyncGenerator<Wait>
  approve(taskRunId: string, decision?: ApproveRequest): Promise<WaitState>
  reject(taskRunId: string, decision?: RejectRequest): Promise<WaitState>
  queue(taskId: string, input?: unknown, options?: Omit<QueueTaskRequest, 'taskId' | 'input'>): Promise<Queued>
  pipelines(): AsyncGenerator<ListedPipeline>
  pipeline(pipelineId: string, options?: { version?: number }): Promise<PipelineAnswer>
  putPipeline(pipelineId: string, document: PipelineDocument): Promise<StoredAnswer>
  services(): AsyncGenerator<Service>
  health(): Promise<Health>
}

/** Dead letters: task runs that failed and are not retried any more. */
export class DeadLetters {
  private constructor()
  all(filters?: Filters): AsyncGenerator<DeadLetter>
  get(letterId: string, options?: { load?: boolean }): Promise<DeadLetterDetail>
  retry(letterId: string): Promise<RetriedAnswer>
  discard(letterId: string, options?: { reason?: string }): Promise<DeadLetterDetail>
  retryAll(options?: RetryAllRequest): Promise<Redrive>
  redrive(redriveId: string): Promise<Redrive>
}

export interface TaskLog {
  debug(...said: unknown[]): void
  info(...said: unknown[]): void
  warn(...said: unknown[]): void
  error(...said: unknown[]): void
}

export interface WorkerOptions {
  /** The orchestrator's URL; PIPEWEAVE_ORCHESTRATOR_URL by default, else `http://127.0.0.1:3000`. */
  url?: string
  /** A token with scope `orchestrator:worker`; PIPEWEAVE_API_TOKEN by default. */
  token?: string
  tenant?: string
  /** The worker secret (`pipeweave services secret`); PIPEWEAVE_SECRET_KEY by default. */
  secretKey?: string
  /** Where it listens: `0.0.0.0` and 3002 by default; port 0 takes any that is free. */
  host?: string
  port?: number
  /** Where the orchestrator reaches it; by default the address of this machine on the way to the orchestrator. */
  baseUrl?: string
  /** Attempts at once; 16 by default. */
  concurrency?: number
  /** Milliseconds that attempts may take after `stop`; 30,000 by default. */
  graceMs?: number
  /** Of the service; by default a hash of its tasks' code. */
  version?: string
  /** Where the worker says what it does; null for nowhere, `console` by default. */
  log?: TaskLog | null
}

export interface TaskOptions {
  /** Tells one version of the code from another; by default a hash of the function's text. */
  codeHash?: string
  /** Seconds that an attempt may take; 300 by default. */
  timeout?: number
  /** Attempts after the first; 3 by default. */
  retries?: number
  retryBackoff?: 'fixed' | 'linear' | 'exponential'
  retryDelayMs?: number
  maxRetryDelayMs?: number
  onExhausted?: 'fail' | 'pause'
  heartbeatIntervalMs?: number
  concurrency?: number
  priority?: number
  allowedNext?: string[]
  /** Seconds for which a result is reused for its idempotency key. */
  idempotencyTTL?: number
  description?: string
  inputSchema?: Record<string, unknown>
}

/** What a task gets besides its input. */
export interface Context<Input = unknown> {
  readonly input: Input
  /** Of a map: the item, and its place from 0. */
  readonly item: unknown
  readonly mapIndex: number | undefined
  readonly taskId: string
  /** The run; undefined for a standalone task. */
  readonly runId: string | undefined
  readonly taskRunId: string
  readonly pipelineId: string | undefined
  readonly stepId: string | undefined
  readonly attempt: number
  readonly previousAttempts: Array<{ attempt: number; error: string; errorCode: string; timestamp: string }>
  readonly tenant: string
  readonly traceId: string | undefined
  readonly triggeredBy: { kind: string; id: string | null; actor: string | null } | undefined
  readonly log: TaskLog
  readonly signal: AbortSignal
  readonly isCancelled: boolean
  readonly callbackUrl: string | undefined
  progress(percent: number, message?: string): Promise<void>
  upstream(stepId: string): Promise<unknown>
  upstreamSteps(): Promise<string[]>
  asset(key: string): Promise<Buffer | undefined>
  addAsset(key: string, content: string | Uint8Array, options?: { type?: 'json' | 'text' | 'binary' }): void
  uploaded(uploadId: string): Promise<{ filename: string; mimeType: string; size: number; content: Buffer } | undefined>
  secret(name: string): string
  selectNext(stepIds: Iterable<string>): void
}

export type TaskFunction<Input = any> = (input: Input, context: Context<Input>) => unknown

/** Serves tasks to an orchestrator by HTTP. */
export class Worker {
  constructor(serviceId: string, options?: WorkerOptions)
  readonly serviceId: string
  /** Known after `start`. */
  readonly port: number
  readonly baseUrl: string
  task<Input = any>(id: string, run: TaskFunction<Input>): this
  task<Input = any>(id: string, options: TaskOptions, run: TaskFunction<Input>): this
  start(): Promise<this>
  stop(): Promise<void>
  run(): Promise<never>
}

/** What a task returns whose work goes on elsewhere. */
export const suspend: {
  callback(options?: { timeoutMs?: number }): Readonly<Record<string, unknown>>
  poll(url: string, options?: { intervalMs?: number; maxAttempts?: number; timeoutMs?: number }): Readonly<Record<string, unknown>>
}

export class PipeWeaveError extends Error {
  constructor(message: string, options?: { code?: string; hint?: string | null; cause?: unknown })
  readonly code: string
  readonly hint: string | null
}

/** The API refused a request. `errors` has one entry for each wrong field. */
export class Problem extends PipeWeaveError {
  constructor(document: Record<string, any>, status: number)
  readonly status: number
  readonly errors: Array<{ field: string; message: string; code: string }>
  readonly document: Record<string, any>
}

export class Unavailable extends PipeWeaveError {
  /** No answer came in time: the request may have been done. */
  readonly isLate: boolean
}

export class RunFailed extends PipeWeaveError {
  constructor(run: RunDetail)
  readonly run: RunDetail
}

export class WaitTimeout extends PipeWeaveError {
  constructor(runId: string, timeoutMs: number)
}

/** What a task throws to say how it failed. */
export class TaskError extends PipeWeaveError {
  constructor(message: string, options?: { code?: string; retryable?: boolean; details?: unknown })
  readonly retryable: boolean
  readonly details: unknown
}
