// The client of the API. Methods return the API's documents unchanged.
import { DeadLetters } from './dead_letters.js'
import { PipeWeaveError, RunFailed, Unavailable, WaitTimeout } from './errors.js'
import { everyRow, part } from './paging.js'
import { pause, Transport } from './transport.js'

const FINAL = new Set(['completed', 'partial', 'failed', 'cancelled'])
// Looks at a run are frequent at first, for runs that take milliseconds, and then less and less frequent.
const FIRST_LOOK_MS = 20
const LOOK_FACTOR = 1.5
const LONGEST_LOOK_MS = 2_000
// A wait goes on after an outage of the API of up to this length.
const OUTAGE_MS = 15_000

const idOf = (run) => (typeof run === 'string' ? run : (run.id ?? run.pipelineRunId))
const once = (text) => (text === undefined ? {} : { 'Idempotency-Key': text })

export class Client {
  #http

  constructor({ url, token, tenant, timeoutMs = 30_000 } = {}) {
    const { env } = process
    this.#http = new Transport({
      url: url ?? env.PIPEWEAVE_ORCHESTRATOR_URL ?? unnamed(),
      token: token ?? env.PIPEWEAVE_API_TOKEN,
      tenant: tenant ?? env.PIPEWEAVE_TENANT,
      timeoutMs,
      agent: 'pipeweave-node',
    })
    this.dlq = new DeadLetters(this.#http)
  }

  /** Any other request of the API: its answer's JSON. */
  request(method, path, { query, body } = {}) {
    return method === 'GET' ? this.#http.get(path, query) : this.#http.send(method, path, body)
  }

  /** Start a run of a pipeline. With a `runToken` that was used before, the answer is that run. */
  trigger(pipelineId, input = {}, options = {}) {
    return this.#http.send('POST', `/api/pipelines/${part(pipelineId)}/trigger`, { input, ...options })
  }

  /** Start up to 1,000 runs, all or none: {runs}. */
  triggerBatch(pipelineId, runs, options = {}) {
    return this.#http.send('POST', `/api/pipelines/${part(pipelineId)}/trigger/batch`, { runs, ...options })
  }

  /** Read a run; `load` also loads large values from storage. */
  run(run, { load = false } = {}) {
    return this.#http.get(this.#path(run), load ? { load } : {})
  }

  /** Every run that matches, newest first, page by page. */
  runs(filters = {}) {
    return everyRow(this.#http, '/api/runs', 'runs', filters)
  }

  /** Look at a run until it is final; with `check`, a run that did not complete throws RunFailed. */
  async wait(run, { timeoutMs = Infinity, check = false } = {}) {
    const id = idOf(run)
    const until = Date.now() + timeoutMs
    let heardAt = Date.now()
    for (let look = FIRST_LOOK_MS; ; look = Math.min(look * LOOK_FACTOR, LONGEST_LOOK_MS)) {
      try {
        const seen = await this.run(id)
        heardAt = Date.now()
        if (FINAL.has(seen.status)) return check ? checked(seen) : seen
      } catch (error) {
        if (!(error instanceof Unavailable) || Date.now() - heardAt > OUTAGE_MS) throw error
      }
      if (Date.now() + look > until) throw new WaitTimeout(id, timeoutMs)
      await pause(look)
    }
  }

  /** The state of a run as one document: every step with status, attempts, error and result. */
  state(run) {
    return this.#http.get(this.#path(run, '/state'))
  }

  timeline(run) {
    return this.#http.get(this.#path(run, '/timeline'))
  }

  /** Why a run does not go on: {status, reasons}. */
  why(run) {
    return this.#http.get(this.#path(run, '/why'))
  }

  events(run, filters = {}) {
    return everyRow(this.#http, this.#path(run, '/events'), 'events', filters)
  }

  taskRuns(run, filters = {}) {
    return everyRow(this.#http, this.#path(run, '/task-runs'), 'taskRuns', filters)
  }

  taskRun(taskRunId, { load = false } = {}) {
    return this.#http.get(`/api/task-runs/${part(taskRunId)}`, load ? { load } : {})
  }

  cancel(run, { reason, now } = {}) {
    return this.#http.send('POST', this.#path(run, '/cancel'), { reason, now })
  }

  pauseRun(run, { reason } = {}) {
    return this.#http.send('POST', this.#path(run, '/pause'), { reason })
  }

  resumeRun(run) {
    return this.#http.send('POST', this.#path(run, '/resume'), {})
  }

  /** Run a run again that has ended, as a new run. */
  rerun(run, options = {}) {
    return this.#http.send('POST', this.#path(run, '/rerun'), options)
  }

  /** Send a signal to a run; it is kept until a step waits for it. */
  signal(run, name, payload = null, options = {}) {
    return this.#http.send('POST', this.#path(run, `/signals/${part(name)}`), payload, once(options.once))
  }

  /** Send a signal to the run that was triggered with this token. */
  signalByToken(pipelineId, runToken, name, payload = null, options = {}) {
    const path = `/api/pipelines/${part(pipelineId)}/signals/${part(name)}?${new URLSearchParams({ runToken })}`
    return this.#http.send('POST', path, payload, once(options.once))
  }

  /** Everything that waits, the oldest first. */
  waits(filters = {}) {
    return everyRow(this.#http, '/api/waits', 'waits', filters)
  }

  approve(taskRunId, { form, choice, comment } = {}) {
    return this.#http.send('POST', `/api/waits/${part(taskRunId)}/approve`, { form, choice, comment })
  }

  reject(taskRunId, { form, comment } = {}) {
    return this.#http.send('POST', `/api/waits/${part(taskRunId)}/reject`, { form, comment })
  }

  /** Queue a standalone task; `runId` of the answer is its task run. */
  queue(taskId, input = {}, options = {}) {
    return this.#http.send('POST', '/api/queue/task', { taskId, input, ...options })
  }

  pipelines() {
    return everyRow(this.#http, '/api/pipelines', 'pipelines', {})
  }

  pipeline(pipelineId, { version } = {}) {
    return this.#http.get(`/api/pipelines/${part(pipelineId)}`, { version })
  }

  /** Store a pipeline's document: a new version if it differs. */
  putPipeline(pipelineId, document) {
    return this.#http.send('PUT', `/api/pipelines/${part(pipelineId)}`, document)
  }

  services() {
    return everyRow(this.#http, '/api/services', 'services', {})
  }

  health() {
    return this.#http.get('/health')
  }

  #path(run, verb = '') {
    return `/api/runs/${part(idOf(run))}${verb}`
  }
}

function checked(run) {
  if (run.status === 'completed') return run
  throw new RunFailed(run)
}

function unnamed() {
  throw new PipeWeaveError('nothing names an orchestrator', {
    code: 'INVALID_INPUT',
    hint: 'set PIPEWEAVE_ORCHESTRATOR_URL, or pass `url`',
  })
}
