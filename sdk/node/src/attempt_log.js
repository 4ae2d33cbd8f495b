// The log of one attempt: JSON lines that are stored with it. Values of secrets become ***.
import { format } from 'node:util'

const MAX_LINES = 10_000
const MAX_MESSAGE = 10_000
const SHORTEST_SECRET = 6

/** A function that replaces secrets in texts. */
export function masking(secrets) {
  const values = Object.values(secrets ?? {}).filter((each) => each.length >= SHORTEST_SECRET)
  const forms = values.flatMap((each) => [
    each,
    JSON.stringify(each).slice(1, -1),
    encodeURIComponent(each),
    Buffer.from(each).toString('base64'),
  ])
  // The longest first: one secret may be a part of another.
  const ordered = [...new Set(forms)].sort((a, b) => b.length - a.length)
  return (text) => ordered.reduce((masked, each) => masked.replaceAll(each, '***'), text)
}

export class AttemptLog {
  #lines = []
  #dropped = 0
  #runId
  #mask

  constructor(runId, mask) {
    this.#runId = runId
    this.#mask = mask
  }

  debug(...said) {
    this.#add('debug', said)
  }

  info(...said) {
    this.#add('info', said)
  }

  warn(...said) {
    this.#add('warn', said)
  }

  error(...said) {
    this.#add('error', said)
  }

  /** The lines so far; empty if nothing was said. */
  content() {
    const end = this.#dropped ? [this.#line('warn', `${this.#dropped} further lines were dropped`)] : []
    return [...this.#lines, ...end].map((line) => `${line}\n`).join('')
  }

  #add(level, said) {
    if (this.#lines.length === MAX_LINES) this.#dropped += 1
    else this.#lines.push(this.#line(level, this.#mask(format(...said)).slice(0, MAX_MESSAGE)))
  }

  #line(level, message) {
    return JSON.stringify({ timestamp: new Date().toISOString(), level, runId: this.#runId, message })
  }
}
