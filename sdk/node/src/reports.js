// Reports to the orchestrator: heartbeats, and how an attempt ended.
import { pause } from './transport.js'

const FIRST_PAUSE_MS = 200
const LONGEST_PAUSE_MS = 15_000
const BEAT_TIMEOUT_MS = 5_000
// The id is not known, or the attempt is over: nobody waits for it.
const OVER = new Set([401, 404, 409, 410])

const isGood = (status) => status >= 200 && status < 300
const mayPass = (status) => status >= 500 || [408, 425, 429].includes(status)
const reasonOf = ({ status, body }) => `${body?.code ?? status}: ${body?.detail ?? 'it gave no reason'}`

export class Reports {
  #http
  #onUnknown
  #log
  #givesUp = false

  /** `onUnknown` is called when the orchestrator does not know what it dispatched: it may have lost its data. */
  constructor(http, onUnknown, log) {
    this.#http = http
    this.#onUnknown = onUnknown
    this.#log = log
  }

  /** Let reports that wait for their next try end after it: the process is about to end. */
  giveUp() {
    this.#givesUp = true
  }

  /** Send a heartbeat, which may carry progress; whether the attempt should end. One that fails is dropped. */
  async beat(runId, body = {}) {
    try {
      const path = `/api/task-runs/${runId}/heartbeat`
      const answer = await this.#http.answer('POST', path, body, { timeoutMs: BEAT_TIMEOUT_MS })
      if (isGood(answer.status)) return answer.body?.shouldCancel === true
      if (answer.status === 404) this.#onUnknown()
      return OVER.has(answer.status)
    } catch (error) {
      this.#log.warn(`a heartbeat was lost: ${error.message}`)
      return false
    }
  }

  /** Report how an attempt ended, until the answer says that it is stored, or never will be. */
  async complete(runId, body) {
    const answer = await this.#untilAnswered(runId, body)
    if (!answer || isGood(answer.status)) return
    if (OVER.has(answer.status)) {
      this.#log.warn(`a report was dropped: ${reasonOf(answer)}`)
      if (answer.status === 404) this.#onUnknown()
    } else if (body.status === 'success' && answer.body?.code !== 'INVALID_REPORT') {
      // Else the orchestrator would wait until heartbeats are missed, and call the task again.
      const error = `the orchestrator refused the result (${reasonOf(answer)})`
      await this.complete(runId, { status: 'failed', error, errorCode: 'INVALID_RESULT', retryable: false })
    } else {
      this.#log.error(`a report was refused: ${reasonOf(answer)}`)
    }
  }

  async #untilAnswered(runId, body) {
    for (let ms = FIRST_PAUSE_MS; ; ms = Math.min(ms * 2, LONGEST_PAUSE_MS)) {
      const isLast = this.#givesUp
      let retryAfterMs = 0
      try {
        const answer = await this.#http.answer('POST', `/api/task-runs/${runId}/complete`, body)
        if (!mayPass(answer.status)) return answer
        retryAfterMs = answer.retryAfterMs
      } catch (error) {
        this.#log.warn(`a report is delayed: ${error.message}`)
      }
      if (isLast) return this.#lost(runId)
      await this.#pause(Math.max(ms, retryAfterMs) * (0.8 + Math.random() * 0.4))
    }
  }

  async #pause(ms) {
    for (const until = Date.now() + ms; Date.now() < until && !this.#givesUp; ) {
      await pause(Math.min(100, until - Date.now()))
    }
  }

  #lost(runId) {
    this.#log.error(`the report of ${runId} was lost: the process ends`)
    return null
  }
}
