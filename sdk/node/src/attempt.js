// Runs one attempt: reads its input, calls the task, stores the result, reports it.
import { AttemptLog, masking } from './attempt_log.js'
import { Context } from './context.js'
import { TaskError, Unavailable } from './errors.js'
import { Objects } from './objects.js'
import { isSuspended } from './suspend.js'
import { Upstream } from './upstream.js'

// An output up to this size (bytes) goes with the report.
const INLINE_BYTES = 32 * 1024
// A heartbeat is sent so often per interval: one may be lost.
const BEATS_PER_INTERVAL = 2
const SHORTEST_BEAT_MS = 50
const PROGRESS_EVERY_MS = 500

export class Attempt {
  #task
  #dispatch
  #http
  #reports
  #objects
  #log
  #mask
  #abort = new AbortController()
  #isReported = false
  #nextProgress = 0

  constructor(task, dispatch, http, reports) {
    this.#task = task
    this.#dispatch = dispatch
    this.#http = http
    this.#reports = reports
    this.#objects = new Objects(http, dispatch)
    this.#mask = masking(dispatch.secrets)
    this.#log = new AttemptLog(dispatch.runId, this.#mask)
  }

  /** Run to the end and report. It never throws. */
  async run() {
    const { heartbeatIntervalMs = 60_000, timeout } = this.#dispatch
    const beats = setInterval(() => this.#beat(), Math.max(heartbeatIntervalMs / BEATS_PER_INTERVAL, SHORTEST_BEAT_MS))
    const limit = timeout && setTimeout(() => this.giveUp(timedOut(timeout)), Math.min(timeout * 1000, 2 ** 31 - 1))
    try {
      await this.#report(await this.#body())
    } finally {
      clearInterval(beats)
      clearTimeout(limit)
    }
  }

  /** Ask the task to end, and report without waiting for it. */
  async giveUp(error) {
    this.#abort.abort(error)
    await this.#report(this.#failed(error))
  }

  async #body() {
    let context
    try {
      context = await this.#context()
    } catch (error) {
      // The task was not called: the attempt does not count.
      return { ...this.#failed(error), ...(error instanceof Unavailable ? { begun: false } : {}) }
    }
    try {
      const output = await this.#task.run(context.input, context)
      const report = isSuspended(output) ? { status: 'pending', ...output } : await this.#succeeded(output, context)
      const assets = await this.#storeAssets(context)
      return { ...report, ...(assets ? { assets } : {}) }
    } catch (error) {
      return this.#failed(error)
    }
  }

  async #context() {
    const { inputPath, inputUrl, callbackUrl } = this.#dispatch
    return new Context(this.#dispatch, {
      input: this.#withSecrets(await this.#objects.readJson(inputPath, inputUrl)),
      upstream: new Upstream(this.#dispatch, this.#objects),
      objects: this.#objects,
      log: this.#log,
      signal: this.#abort.signal,
      onProgress: (said) => this.#progress(said),
      callbackUrl: callbackUrl && this.#http.openUrl(callbackUrl),
    })
  }

  /** The input with the params that are secrets: they come apart from it. */
  #withSecrets(input) {
    const { secretParams = {}, secrets = {} } = this.#dispatch
    const params = Object.entries(secretParams).map(([param, name]) => [param, secrets[name]])
    return params.length ? { ...input, ...Object.fromEntries(params) } : input
  }

  async #succeeded(output, { selectedNext }) {
    const content = this.#mask(encoded(output))
    const size = Buffer.byteLength(content)
    const stored = size <= INLINE_BYTES ? { output: JSON.parse(content) } : { outputPath: await this.#objects.putOutput(content) }
    return { status: 'success', outputSize: size, ...stored, ...(selectedNext ? { selectedNext } : {}) }
  }

  async #storeAssets({ assets }) {
    const stored = {}
    for (const [key, { content, type, contentType }] of Object.entries(assets)) {
      stored[key] = { path: await this.#objects.putAsset(key, content, contentType), size: content.length, type }
    }
    return Object.keys(stored).length ? stored : null
  }

  #failed(error) {
    const { message, stack, code, retryable, details } = error instanceof Error ? error : new TaskError(String(error))
    this.#log.error(message)
    return {
      status: 'failed',
      error: this.#mask(message || error.name),
      errorCode: typeof code === 'string' && code ? code : error.name || 'TASK_FAILED',
      retryable: retryable !== false,
      ...(stack ? { stack: this.#mask(stack) } : {}),
      ...(details === undefined ? {} : { details: JSON.parse(this.#mask(encoded(details))) }),
    }
  }

  async #beat(said = {}) {
    if (await this.#reports.beat(this.#dispatch.runId, said)) this.#abort.abort(cancelled())
  }

  async #progress(said) {
    if (Date.now() < this.#nextProgress) return
    this.#nextProgress = Date.now() + PROGRESS_EVERY_MS
    await this.#beat({ ...said, message: said.message && this.#mask(said.message) })
  }

  async #report(body) {
    if (this.#isReported) return
    this.#isReported = true
    await this.#reports.complete(this.#dispatch.runId, { ...body, ...(await this.#storeLog()) })
  }

  async #storeLog() {
    const content = this.#log.content()
    if (!content) return {}
    try {
      return { logsPath: await this.#objects.putLog(content) }
    } catch {
      // The result is worth more than its log.
      return {}
    }
  }
}

function encoded(output) {
  let content
  try {
    content = JSON.stringify(output ?? null)
  } catch (error) {
    throw new TaskError(`the result is not JSON: ${error.message}`, { code: 'INVALID_RESULT', retryable: false })
  }
  if (content === undefined) throw new TaskError('the result is not JSON', { code: 'INVALID_RESULT', retryable: false })
  return content
}

const cancelled = () => new TaskError('the orchestrator cancelled the attempt', { code: 'CANCELLED', retryable: false })

const timedOut = (seconds) =>
  new TaskError(`Operation timed out after ${Math.round(seconds * 1000)}ms`, { code: 'TIMEOUT', details: { timeoutMs: seconds * 1000 } })
