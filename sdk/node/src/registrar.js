// Registers a worker with its orchestrator, and keeps it registered.
import { PipeWeaveError } from './errors.js'

// An orchestrator may have lost its data, or have set this worker aside: so it registers again this often.
const AGAIN_EVERY_MS = 60_000
const FIRST_PAUSE_MS = 500
const LONGEST_PAUSE_MS = 30_000
const LEAVE_TIMEOUT_MS = 5_000

const HINTS = {
  401: 'give a token with scope orchestrator:worker, or a URL with /w/<tenant>/<token>',
  403: 'the token needs scope orchestrator:worker',
  404: "is this the URL of PipeWeave's API?",
}

export class Registrar {
  #http
  #body
  #log
  #timer
  #underWay = Promise.resolve()
  #isLeaving = false
  #pauseMs = FIRST_PAUSE_MS

  constructor(http, body, log) {
    this.#http = http
    this.#body = body
    this.#log = log
  }

  /** Register, and go on registering. Throws if the orchestrator refuses; one that cannot be reached is tried again. */
  async start() {
    const isRegistered = await this.#register()
    this.#next(isRegistered)
  }

  /** Register again soon: the orchestrator seems not to know this worker. */
  again() {
    this.#pauseMs = FIRST_PAUSE_MS
    this.#next(false)
  }

  /** Register no more, and take the instance away. */
  async leave() {
    this.#isLeaving = true
    clearTimeout(this.#timer)
    // A registration that is under way must not follow the farewell.
    await this.#underWay
    const { serviceId, baseUrl } = this.#body
    const path = `/api/services/${encodeURIComponent(serviceId)}/instances?baseUrl=${encodeURIComponent(baseUrl)}`
    await this.#http
      .answer('DELETE', path, undefined, { timeoutMs: LEAVE_TIMEOUT_MS })
      .catch((error) => this.#log.warn(`the instance was not taken away: ${error.message}`))
  }

  #next(isRegistered) {
    if (this.#isLeaving) return
    clearTimeout(this.#timer)
    const ms = (isRegistered ? AGAIN_EVERY_MS : this.#pauseMs) * (0.8 + Math.random() * 0.2)
    this.#pauseMs = isRegistered ? FIRST_PAUSE_MS : Math.min(this.#pauseMs * 2, LONGEST_PAUSE_MS)
    this.#timer = setTimeout(() => this.#keep(), ms)
  }

  #keep() {
    this.#underWay = this.#register()
      .catch((error) => {
        this.#log.error(error.message)
        return false
      })
      .then((isRegistered) => this.#next(isRegistered))
  }

  /** Whether the orchestrator took it; false if it may take it later. */
  async #register() {
    let answer
    try {
      answer = await this.#http.answer('POST', '/api/services', this.#body)
    } catch (error) {
      this.#log.warn(`not registered: ${error.message}`)
      return false
    }
    if (answer.status >= 200 && answer.status < 300) return true
    const said = answer.body?.detail ?? `status ${answer.status}`
    if (answer.status >= 500 || answer.status === 429) {
      this.#log.warn(`not registered: ${said}`)
      return false
    }
    throw new PipeWeaveError(`the orchestrator refused the registration: ${said}`, {
      code: answer.body?.code ?? 'REGISTRATION_REFUSED',
      hint: answer.body?.hint ?? HINTS[answer.status] ?? null,
    })
  }
}
