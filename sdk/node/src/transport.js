// Sends requests to one orchestrator, reads JSON answers, and throws problem documents as errors.
import { PipeWeaveError, Problem, Unavailable } from './errors.js'

// Only GETs are repeated: a second POST could act twice.
const GET_TRIES = 3
const FIRST_PAUSE_MS = 100
const CREDENTIALS = /\/w\/[^/]+\/[^/]+/

export const pause = (ms, options) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    if (options?.unref) timer.unref()
  })

export class Transport {
  constructor({ url, token, tenant, timeoutMs, agent }) {
    this.url = checkedUrl(url)
    this.timeoutMs = timeoutMs
    this.headers = { Accept: 'application/json', 'User-Agent': agent }
    if (token) this.headers.Authorization = `Bearer ${token}`
    if (tenant) this.headers['X-Tenant'] = tenant
  }

  /** The URL without what opens it: its path may hold a token. */
  get shownUrl() {
    return this.url.replace(CREDENTIALS, '/w/…')
  }

  /** The address of a path for somebody who has no token. */
  openUrl(path) {
    return path.startsWith('/') ? this.url.replace(CREDENTIALS, '') + path : path
  }

  fullUrl(url) {
    return url.startsWith('/') ? this.url + url : url
  }

  /** GET the JSON at a path; tries again where the orchestrator cannot be reached. */
  async get(path, query) {
    for (let turn = 1; ; turn += 1) {
      try {
        return await this.send('GET', path + queryText(query))
      } catch (error) {
        if (!(error instanceof Unavailable) || error.isLate || turn === GET_TRIES) throw error
        await pause(FIRST_PAUSE_MS * 2 ** (turn - 1))
      }
    }
  }

  /** Send a body as JSON, once; the JSON of the answer, null if it has none. */
  async send(method, path, body, headers = {}) {
    const answer = await this.answer(method, path, body, { headers })
    if (answer.status >= 200 && answer.status < 300) return answer.body
    throw problemOf(answer, this.shownUrl)
  }

  /** An answer of any status: {status, body, retryAfterMs}. Throws Unavailable if none came. */
  async answer(method, path, body, { headers = {}, timeoutMs = this.timeoutMs } = {}) {
    const content = body === undefined ? undefined : JSON.stringify(body)
    const kind = content === undefined ? {} : { 'Content-Type': 'application/json' }
    try {
      const answer = await fetch(this.url + path, {
        method,
        headers: { ...this.headers, ...kind, ...headers },
        body: content,
        redirect: 'manual',
        signal: AbortSignal.timeout(timeoutMs),
      })
      const text = await answer.text()
      return { status: answer.status, body: parsed(text), retryAfterMs: secondsOf(answer.headers) * 1000 }
    } catch (error) {
      throw this.unreachable(error)
    }
  }

  unreachable(error) {
    // The text of an error may quote the URL, which may hold a token.
    const isLate = error.name === 'TimeoutError'
    const reason = isLate ? 'it did not answer in time' : error.cause?.code || error.name
    return new Unavailable(`the orchestrator at ${this.shownUrl} cannot be reached (${reason})`, {
      isLate,
      hint: 'is it running? `pipeweave up` starts one on this machine',
    })
  }
}

function problemOf(answer, url) {
  const { status, body } = answer
  if (body && typeof body.code === 'string') return new Problem(body, status)
  const said = `${url} answered with status ${status}`
  if (status >= 500 || status === 429) return new Unavailable(said)
  return new PipeWeaveError(said, { code: 'NO_PROBLEM_DOCUMENT', hint: "is this the URL of PipeWeave's API?" })
}

function checkedUrl(text) {
  let url = null
  try {
    url = new URL(text)
  } catch {
    // Told below, as every other fault of it.
  }
  if (!url || !['http:', 'https:'].includes(url.protocol) || url.username || url.password || url.search) {
    throw new PipeWeaveError("the orchestrator's URL cannot be used", {
      code: 'INVALID_INPUT',
      hint: 'write it as http://127.0.0.1:3000 or http://127.0.0.1:3000/w/<tenant>/<token>, and pass a token as `token`',
    })
  }
  return url.href.replace(/\/+$/, '')
}

function queryText(query = {}) {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null) parameters.append(name, each instanceof Date ? each.toISOString() : String(each))
    }
  }
  const text = parameters.toString()
  return text && `?${text}`
}

function parsed(text) {
  try {
    return text ? JSON.parse(text) : null
  } catch {
    return null
  }
}

const secondsOf = (headers) => {
  const value = headers.get('Retry-After')
  return value && /^\d+$/.test(value) ? Number(value) : 0
}
