// Dead letters: task runs that failed and are not retried any more.
import { everyRow, part } from './paging.js'

export class DeadLetters {
  #http

  constructor(http) {
    this.#http = http
  }

  /** Every dead letter that matches, newest first. `status`: `open` (by default), `retried`, `discarded` or `all`. */
  all(filters = {}) {
    return everyRow(this.#http, '/api/dlq', 'items', filters)
  }

  get(letterId, { load = false } = {}) {
    return this.#http.get(`/api/dlq/${part(letterId)}`, load ? { load } : {})
  }

  /** Retry with the current code; the run goes on from the failed step. */
  retry(letterId) {
    return this.#http.send('POST', `/api/dlq/${part(letterId)}/retry`, {})
  }

  discard(letterId, { reason } = {}) {
    return this.#http.send('POST', `/api/dlq/${part(letterId)}/discard`, { reason })
  }

  /** Start a redrive of all open dead letters that match. */
  retryAll(options = {}) {
    return this.#http.send('POST', '/api/dlq/retry-all', options)
  }

  redrive(redriveId) {
    return this.#http.get(`/api/dlq/redrives/${part(redriveId)}`)
  }
}
