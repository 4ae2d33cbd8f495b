// What a task gets besides its input.
import { TaskError } from './errors.js'

const CONTENT_TYPES = { json: 'application/json', text: 'text/plain; charset=utf-8', binary: 'application/octet-stream' }

export class Context {
  #dispatch
  #means

  /** `means` are of the attempt: {input, upstream, objects, log, signal, onProgress, callbackUrl}. */
  constructor(dispatch, means) {
    this.#dispatch = dispatch
    this.#means = means
    this.assets = {}
    this.selectedNext = undefined
    const { mapIndex, mapName } = dispatch
    this.input = means.input
    this.item = mapIndex === undefined ? undefined : mapName === undefined ? means.input : means.input?.[mapName]
    this.mapIndex = mapIndex
    this.taskId = dispatch.taskId
    this.runId = dispatch.pipelineRunId
    this.taskRunId = dispatch.runId.split('.')[0]
    this.pipelineId = dispatch.pipelineId
    this.stepId = dispatch.stepId
    this.attempt = dispatch.attempt ?? 1
    this.previousAttempts = dispatch.previousAttempts ?? []
    this.tenant = dispatch.tenant
    this.traceId = dispatch.traceId
    this.triggeredBy = dispatch.triggeredBy
    this.log = means.log
    /** Aborted when the run was cancelled, or the time of the attempt is over. */
    this.signal = means.signal
  }

  get isCancelled() {
    return this.signal.aborted
  }

  /** Where another system may report the result, for a task that returns `suspend.callback()`. */
  get callbackUrl() {
    return this.#means.callbackUrl
  }

  /** Tell how far the task is: 0 to 100. Throws if the attempt should end. */
  async progress(percent, message) {
    this.signal.throwIfAborted()
    await this.#means.onProgress({ progress: percent, message })
    this.signal.throwIfAborted()
  }

  /** The output of a completed step before this one; undefined if there is none. */
  upstream(stepId) {
    return this.#means.upstream.output(stepId)
  }

  /** The ids of all completed steps before this one. */
  upstreamSteps() {
    return this.#means.upstream.stepIds()
  }

  /** The bytes of a file that an earlier step has left; undefined if there is none. */
  asset(key) {
    return this.#means.upstream.asset(key)
  }

  /** Leave a file for later steps. It is stored when the task has succeeded. */
  addAsset(key, content, { type = typeof content === 'string' ? 'text' : 'binary' } = {}) {
    if (!Object.hasOwn(CONTENT_TYPES, type)) {
      throw new TaskError(`the type of an asset is json, text or binary, not ${type}`, { code: 'INVALID_ASSET', retryable: false })
    }
    this.assets[key] = { content: Buffer.from(content), type, contentType: CONTENT_TYPES[type] }
  }

  /** A file that was uploaded for the run: {filename, mimeType, size, content}; undefined if there is none. */
  async uploaded(uploadId) {
    const upload = this.#dispatch.uploads?.[uploadId]
    if (!upload) return undefined
    const { path, url, ...about } = upload
    return { ...about, content: await this.#means.objects.read(path, url) }
  }

  /** A secret that the step's params name. Lines of the log and errors show it as ***. */
  secret(name) {
    const value = this.#dispatch.secrets?.[name]
    if (value === undefined) {
      throw new TaskError(`the dispatch has no secret ${name}`, { code: 'SECRET_NOT_FOUND' })
    }
    return value
  }

  /** Which of the steps behind this one run; `[]` for none. Without a call, all do. */
  selectNext(stepIds) {
    this.selectedNext = [...stepIds]
  }
}
