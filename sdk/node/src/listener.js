// The HTTP side of a worker: answers dispatches, and questions about its health.
import { createServer } from 'node:http'
import { readDispatch } from './dispatch.js'
import { isSigned } from './signature.js'

const MAX_BODY_BYTES = 10_000_000

/** Listen; the server. `worker` is asked: {about(), has(taskId), take(taskId, dispatch)}. */
export function listen({ host, port, secret, worker }) {
  const server = createServer((request, response) => {
    handle(request, worker, secret).then(
      (answer) => answer && write(response, answer),
      () => response.destroy(),
    )
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => resolve(server))
  })
}

const refusal = (status, error, headers = {}) => ({ status, body: { error }, headers })

async function handle(request, worker, secret) {
  const path = request.url.split('?')[0]
  if (path === '/health') return { status: 200, body: worker.about() }
  const taskId = nameIn(path)
  if (taskId === null || !worker.has(taskId)) return refusal(404, 'this worker has no such task')
  if (request.method !== 'POST') return refusal(405, 'dispatches come by POST', { Allow: 'POST' })
  const body = await bodyOf(request)
  if (body === null) return refusal(413, `a dispatch has at most ${MAX_BODY_BYTES} bytes`, { Connection: 'close' })
  if (!isSigned(secret, request.headers['x-pipeweave-signature'], path, body)) {
    return refusal(401, 'the signature does not fit: worker and orchestrator need the same secret, and clocks that agree')
  }
  return taken(worker, taskId, body)
}

function taken(worker, taskId, body) {
  let dispatch
  try {
    dispatch = readDispatch(body)
  } catch (error) {
    return refusal(400, error.message)
  }
  switch (worker.take(taskId, dispatch)) {
    case 'stopping':
      return refusal(503, 'this worker is about to stop')
    case 'full':
      return refusal(429, 'this worker runs as many attempts as it may', { 'Retry-After': '1' })
    default:
      return { status: 202, body: { acknowledged: true, runId: dispatch.runId } }
  }
}

function nameIn(path) {
  if (!path.startsWith('/tasks/')) return null
  try {
    return decodeURIComponent(path.slice('/tasks/'.length))
  } catch {
    return null
  }
}

/** The bytes of a body; null if it is too large. */
async function bodyOf(request) {
  const pieces = []
  let size = 0
  for await (const piece of request) {
    size += piece.length
    if (size > MAX_BODY_BYTES) return null
    pieces.push(piece)
  }
  return Buffer.concat(pieces)
}

function write(response, { status, body, headers = {} }) {
  response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body))
}
