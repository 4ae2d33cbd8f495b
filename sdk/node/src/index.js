// What programs import: a client of the API, a worker that serves tasks, and the errors of both.
export { Client } from './client.js'
export { PipeWeaveError, Problem, RunFailed, TaskError, Unavailable, WaitTimeout } from './errors.js'
export { suspend } from './suspend.js'
export { Worker } from './worker.js'
