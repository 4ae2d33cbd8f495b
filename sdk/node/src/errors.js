// Every error that the package throws. Each has a `code` that stays the same between versions.

/** The base of all errors of this package. */
export class PipeWeaveError extends Error {
  constructor(message, { code = 'PIPEWEAVE_ERROR', hint = null, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = new.target.name
    this.code = code
    this.hint = hint
  }
}

/** The API refused a request: its problem document as an error. */
export class Problem extends PipeWeaveError {
  constructor(document, status) {
    super(document.detail || document.title || `the orchestrator answered with status ${status}`, {
      code: document.code,
      hint: document.hint ?? null,
    })
    this.status = status
    this.errors = Array.isArray(document.errors) ? document.errors : []
    this.document = document
  }
}

/** The orchestrator or the storage cannot be reached, or did not answer in time. The same request may succeed later. */
export class Unavailable extends PipeWeaveError {
  constructor(message, { isLate = false, ...options } = {}) {
    super(message, { code: 'UNAVAILABLE', ...options })
    this.isLate = isLate
  }
}

/** A run ended otherwise than `completed`; `run` is its document. */
export class RunFailed extends PipeWeaveError {
  constructor(run) {
    const error = run.error ? `: ${run.error.code}: ${run.error.message}` : ''
    super(`run ${run.id} ended ${run.status}${error}`, { code: 'RUN_FAILED' })
    this.run = run
  }
}

/** A run was not final in time; it goes on. */
export class WaitTimeout extends PipeWeaveError {
  constructor(runId, timeoutMs) {
    super(`run ${runId} was not final after ${timeoutMs} ms; it goes on`, { code: 'WAIT_TIMEOUT' })
  }
}

/**
 * What a task throws to say how it failed.
 *
 * `code` is matched by retry rules, `retryable: false` ends the attempts, `details` is any JSON.
 */
export class TaskError extends PipeWeaveError {
  constructor(message, { code = 'TASK_FAILED', retryable = true, details } = {}) {
    super(message, { code })
    this.retryable = retryable
    this.details = details
  }
}
