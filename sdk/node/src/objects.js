// Reads and writes the objects of one attempt by the URLs that the orchestrator gives.
import { PipeWeaveError, Unavailable } from './errors.js'

const OBJECT_TIMEOUT_MS = 60_000
// What a store answers to a URL that has expired.
const EXPIRED = new Set([400, 401, 403, 410])

export class Objects {
  #http
  #dispatch

  constructor(http, dispatch) {
    this.#http = http
    this.#dispatch = dispatch
  }

  /** The bytes of an object; a URL that has expired is exchanged for a new one. */
  async read(path, url) {
    let answer = url && (await this.#fetch(url))
    if (!answer || EXPIRED.has(answer.status)) {
      const { get } = await this.#ask({ get: [path] })
      answer = await this.#fetch(get[path])
    }
    return Buffer.from(await checked(answer).arrayBuffer())
  }

  async readJson(path, url) {
    return JSON.parse((await this.read(path, url)).toString())
  }

  /** Store the output; its path. */
  async putOutput(content) {
    await this.#put(this.#dispatch.upload.output, content, 'application/json')
    return `runs/${this.#dispatch.runId}/output.json`
  }

  /** Store the log; its path. */
  async putLog(content) {
    await this.#put(this.#dispatch.upload.logs, content, 'application/x-ndjson')
    return `runs/${this.#dispatch.runId}/logs.jsonl`
  }

  /** Store a file; its path. */
  async putAsset(key, content, contentType) {
    const { put } = await this.#ask({ put: [key] })
    await this.#put(put[key].url, content, contentType)
    return put[key].path
  }

  /** The next page of references to earlier steps. */
  references(path) {
    return this.#http.get(path)
  }

  #ask(wanted) {
    return this.#http.send('POST', `/api/task-runs/${this.#dispatch.runId}/urls`, wanted)
  }

  async #put(url, body, contentType) {
    checked(await this.#fetch(url, { method: 'PUT', body, headers: { 'Content-Type': contentType } }))
  }

  async #fetch(url, options = {}) {
    try {
      return await fetch(this.#http.fullUrl(url), {
        ...options,
        redirect: 'manual',
        signal: AbortSignal.timeout(OBJECT_TIMEOUT_MS),
      })
    } catch (error) {
      throw new Unavailable(`the storage cannot be reached (${error.cause?.code || error.name})`)
    }
  }
}

function checked(answer) {
  if (answer.status >= 200 && answer.status < 300) return answer
  if (answer.status >= 500 || answer.status === 429) throw new Unavailable(`the storage answered with status ${answer.status}`)
  const isThere = answer.status !== 404
  throw new PipeWeaveError(isThere ? `the storage answered with status ${answer.status}` : 'there is no such stored object', {
    code: isThere ? 'STORAGE_REFUSED' : 'NOT_FOUND',
  })
}
