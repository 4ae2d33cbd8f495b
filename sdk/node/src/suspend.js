// A task whose work goes on elsewhere returns one of these; docs/waits.md tells what follows.

const SUSPENDED = Symbol('suspended')

const made = (report) => {
  const value = Object.fromEntries(Object.entries(report).filter(([, each]) => each !== undefined))
  Object.defineProperty(value, SUSPENDED, { value: true })
  return Object.freeze(value)
}

/** Ways to leave a step waiting, without a worker and without heartbeats. */
export const suspend = Object.freeze({
  /** Another system will POST the result to `context.callbackUrl`. */
  callback: ({ timeoutMs } = {}) => made({ callbackUrl: true, timeoutMs }),

  /** The orchestrator asks a URL until it answers that the work is done. */
  poll: (url, { intervalMs, maxAttempts, timeoutMs } = {}) => made({ pollUrl: url, intervalMs, maxAttempts, timeoutMs }),
})

/** Whether a task returned one of them. */
export const isSuspended = (value) => value !== null && typeof value === 'object' && value[SUSPENDED] === true
