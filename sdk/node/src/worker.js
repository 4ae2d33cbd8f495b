// Serves tasks to an orchestrator: registers them, takes dispatches, runs them, reports.
import { createHash } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { Attempt } from './attempt.js'
import { PipeWeaveError, TaskError } from './errors.js'
import { listen } from './listener.js'
import { Registrar } from './registrar.js'
import { Reports } from './reports.js'
import { pause, Transport } from './transport.js'

const PORT = 3002
const CONCURRENCY = 16
const GRACE_MS = 30_000
const TIMEOUT_MS = 10_000
// Ids of attempts that have ended are remembered, so that a dispatch that comes twice runs once.
const REMEMBERED = 10_000
// How long the last reports of a worker that stops may take.
const LAST_REPORTS_MS = 5_000
const ID = /^(?!\.+$)[A-Za-z0-9._~:@-]{1,200}$/

const silent = { debug() {}, info() {}, warn() {}, error() {} }

export class Worker {
  #options
  #tasks = new Map()
  #running = new Map()
  #ended = new Set()
  #isStopping = false
  #http
  #server
  #registrar
  #reports

  constructor(serviceId, options = {}) {
    const { env } = process
    checkId('the service', serviceId)
    this.serviceId = serviceId
    this.#options = {
      url: env.PIPEWEAVE_ORCHESTRATOR_URL ?? 'http://127.0.0.1:3000',
      token: env.PIPEWEAVE_API_TOKEN,
      tenant: env.PIPEWEAVE_TENANT,
      secretKey: env.PIPEWEAVE_SECRET_KEY,
      host: '0.0.0.0',
      port: PORT,
      concurrency: CONCURRENCY,
      graceMs: GRACE_MS,
      log: console,
      ...Object.fromEntries(Object.entries(options).filter(([, value]) => value !== undefined)),
    }
    this.#options.log = this.#options.log ?? silent
    if (!this.#options.secretKey) {
      throw new PipeWeaveError('PIPEWEAVE_SECRET_KEY is not set', {
        code: 'INVALID_SETTING',
        hint: `\`pipeweave services secret ${serviceId}\` prints it; set it, or pass secretKey`,
      })
    }
    this.#http = new Transport({ ...this.#options, timeoutMs: TIMEOUT_MS, agent: 'pipeweave-node-worker' })
  }

  /** Add a task: `worker.task('resize', { timeout: 60 }, async (input, context) => …)`. */
  task(id, ...rest) {
    const run = rest.pop()
    const [options = {}] = rest
    checkId('a task', id)
    if (typeof run !== 'function') throw new PipeWeaveError(`task ${id} has no function`, { code: 'INVALID_TASK' })
    if (this.#tasks.has(id)) throw new PipeWeaveError(`there are two tasks ${id}`, { code: 'INVALID_TASK' })
    const codeHash = options.codeHash ?? createHash('sha256').update(String(run)).digest('hex')
    this.#tasks.set(id, { run, registration: { ...options, id, codeHash } })
    return this
  }

  /** Listen and register. While the orchestrator cannot be reached, it goes on trying. Throws if it refuses. */
  async start() {
    if (!this.#tasks.size) throw new PipeWeaveError('there are no tasks to serve', { code: 'INVALID_TASK', hint: 'add one with `task`' })
    const { host, port, secretKey, log } = this.#options
    this.#server = await listen({ host, port, secret: secretKey, worker: this.#side() })
    this.port = this.#server.address().port
    this.baseUrl = this.#options.baseUrl ?? `http://${await this.#address()}:${this.port}`
    this.#registrar = new Registrar(this.#http, this.#registration(), log)
    this.#reports = new Reports(this.#http, () => this.#registrar.again(), log)
    try {
      await this.#registrar.start()
    } catch (error) {
      this.#server.close()
      throw error
    }
    log.info(`serving ${[...this.#tasks.keys()].join(', ')} at ${this.baseUrl}`)
    return this
  }

  /** Take no more dispatches, leave, and let what runs end; what does not is reported as WORKER_STOPPED. */
  async stop() {
    if (this.#isStopping) return
    this.#isStopping = true
    await this.#registrar.leave()
    await this.#until(() => !this.#running.size, this.#options.graceMs)
    const stopped = new TaskError('the worker was stopped', { code: 'WORKER_STOPPED' })
    const reported = [...this.#running.values()].map((attempt) => attempt.giveUp(stopped))
    await Promise.race([Promise.all(reported), pause(LAST_REPORTS_MS, { unref: true })])
    this.#reports.giveUp()
    this.#server.close()
    this.#server.closeAllConnections?.()
  }

  /** Serve until TERM or Ctrl-C, then stop and end the process. A second signal ends it at once. */
  async run() {
    let isHeard = false
    const ended = new Promise((resolve) => {
      const hear = () => (isHeard ? process.exit(1) : resolve((isHeard = true)))
      process.on('SIGTERM', hear).on('SIGINT', hear)
    })
    await this.start()
    await ended
    await this.stop()
    process.exit(0)
  }

  #side() {
    return {
      about: () => this.#about(),
      has: (taskId) => this.#tasks.has(taskId),
      take: (taskId, dispatch) => this.#take(taskId, dispatch),
    }
  }

  #about() {
    return {
      status: this.#isStopping ? 'draining' : 'healthy',
      service: this.serviceId,
      tasks: [...this.#tasks.keys()].sort(),
      running: this.#running.size,
      capacity: this.#options.concurrency,
    }
  }

  #take(taskId, dispatch) {
    const { runId } = dispatch
    if (this.#running.has(runId) || this.#ended.has(runId)) return 'again'
    if (this.#isStopping || !this.#reports) return 'stopping'
    if (this.#running.size >= this.#options.concurrency) return 'full'
    const attempt = new Attempt(this.#tasks.get(taskId), { taskId, ...dispatch }, this.#http, this.#reports)
    this.#running.set(runId, attempt)
    // After the answer: whoever dispatches waits for it.
    setImmediate(() => attempt.run().finally(() => this.#remember(runId)))
    return 'taken'
  }

  #remember(runId) {
    this.#running.delete(runId)
    this.#ended.add(runId)
    if (this.#ended.size > REMEMBERED) this.#ended.delete(this.#ended.values().next().value)
  }

  #registration() {
    const tasks = [...this.#tasks.values()].map((task) => task.registration)
    const code = tasks.map((task) => `${task.id}=${task.codeHash}`).sort()
    const version = this.#options.version ?? createHash('sha256').update(code.join('\n')).digest('hex').slice(0, 12)
    return { serviceId: this.serviceId, version, baseUrl: this.baseUrl, storageAccess: 'urls', tasks }
  }

  /** The address of this machine on the way to the orchestrator, unless the worker listens on one address alone. */
  #address() {
    const { host } = this.#options
    if (!['0.0.0.0', '::', ''].includes(host)) return host.includes(':') ? `[${host}]` : host
    const { hostname, port, protocol } = new URL(this.#http.url)
    return ownAddress(hostname.replace(/^\[|\]$/g, ''), Number(port) || (protocol === 'https:' ? 443 : 80))
  }

  async #until(isSo, ms) {
    for (const until = Date.now() + ms; !isSo() && Date.now() < until; ) await pause(20)
  }
}

function checkId(what, id) {
  if (typeof id !== 'string' || !ID.test(id)) {
    throw new PipeWeaveError(`${JSON.stringify(id)} is no id for ${what}`, {
      code: 'INVALID_ID',
      hint: 'use 1 to 200 letters, digits and . _ ~ : @ -',
    })
  }
}

/** Nothing is sent: a connected socket knows which address it would use. */
function ownAddress(hostname, port) {
  return new Promise((resolve) => {
    const socket = createSocket(hostname.includes(':') ? 'udp6' : 'udp4')
    const end = (address) => {
      socket.close()
      resolve(address.includes(':') ? `[${address}]` : address)
    }
    socket.once('error', () => end('127.0.0.1'))
    socket.connect(port, hostname, () => end(socket.address().address))
  })
}
