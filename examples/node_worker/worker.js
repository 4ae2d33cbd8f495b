// A worker in plain Node: no SDK, no packages. docs/http-workers.md describes every request in it.
const { createHash, createHmac, timingSafeEqual } = require('node:crypto')
const { createServer } = require('node:http')

const env = process.env
const orchestrator = (env.PIPEWEAVE_ORCHESTRATOR_URL || 'http://127.0.0.1:3000').replace(/\/$/, '')
const secret = env.PIPEWEAVE_SECRET_KEY
const headers = { 'Content-Type': 'application/json' }
if (env.PIPEWEAVE_API_TOKEN) headers.Authorization = `Bearer ${env.PIPEWEAVE_API_TOKEN}`
if (env.PIPEWEAVE_TENANT) headers['X-Tenant'] = env.PIPEWEAVE_TENANT
const service = 'ranking'
const capacity = 8

const tasks = {
  async rank_words({ input, log, isCancelled }) {
    const pairs = Object.entries(input.counts)
    log('info', `ranking ${pairs.length} words`)
    if (isCancelled()) throw Object.assign(new Error('cancelled'), { code: 'CANCELLED' })
    pairs.sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    return pairs.slice(0, input.top).map(([word, count]) => ({ word, count }))
  },
}

const running = new Map() // runId -> attempt
const ended = new Set() // so that a dispatch that comes twice is executed once
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
const full = (url) => (url.startsWith('/') ? orchestrator + url : url)
const post = (path, body, method = 'POST') =>
  fetch(orchestrator + path, { method, headers, body: body && JSON.stringify(body), signal: AbortSignal.timeout(10_000) })

async function put(url, text, type) {
  const answer = await fetch(full(url), { method: 'PUT', headers: { 'Content-Type': type }, body: text })
  if (!answer.ok) throw Object.assign(new Error(`storage answered ${answer.status}`), { code: 'UNAVAILABLE' })
}

async function read(url) {
  const answer = await fetch(full(url))
  if (!answer.ok) throw Object.assign(new Error(`storage answered ${answer.status}`), { code: 'UNAVAILABLE' })
  return answer.json()
}

// Until it is durable: 2xx. Another 4xx means that nobody waits for it any more.
async function report(runId, body) {
  for (let wait = 200; ; wait = Math.min(wait * 2, 15_000)) {
    const status = await post(`/api/task-runs/${runId}/complete`, body).then((a) => a.status, () => 0)
    if (status >= 200 && status < 300) return
    if (status >= 400 && status < 500 && status !== 429) return console.error(`report dropped: ${status}`)
    await pause(wait)
  }
}

async function run(taskId, dispatch) {
  const { runId, upload } = dispatch
  const attempt = { isCancelled: false }
  running.set(runId, attempt)
  const lines = []
  const log = (level, message) =>
    lines.push(JSON.stringify({ timestamp: new Date().toISOString(), level, runId, message }))
  const beat = async () => {
    const answer = await post(`/api/task-runs/${runId}/heartbeat`, {}).then((a) => a.json(), () => ({}))
    if (answer.shouldCancel) attempt.isCancelled = true
  }
  const beats = setInterval(beat, (dispatch.heartbeatIntervalMs || 60_000) / 2)
  let body
  try {
    const input = await read(dispatch.inputUrl)
    const output = JSON.stringify(await tasks[taskId]({ input, log, isCancelled: () => attempt.isCancelled }))
    await put(upload.output, output, 'application/json')
    body = { status: 'success', outputPath: `runs/${runId}/output.json`, outputSize: Buffer.byteLength(output) }
  } catch (error) {
    log('error', String(error))
    body = { status: 'failed', error: error.message, errorCode: error.code || error.name, stack: error.stack }
  }
  if (lines.length) {
    const stored = put(upload.logs, lines.join('\n') + '\n', 'application/x-ndjson')
    if (await stored.then(() => true, () => false)) body.logsPath = `runs/${runId}/logs.jsonl`
  }
  await report(runId, body)
  clearInterval(beats)
  running.delete(runId)
  ended.add(runId)
  if (ended.size > 10_000) ended.delete(ended.values().next().value)
}

function isSigned(request, body) {
  const [, at, mac] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(request.headers['x-pipeweave-signature'] || '') || []
  if (!at || Math.abs(Date.now() / 1000 - at) > 300) return false
  const wanted = createHmac('sha256', secret).update(`${at}.${request.url}.`).update(body).digest('hex')
  return timingSafeEqual(Buffer.from(mac), Buffer.from(wanted))
}

let isStopping = false
const server = createServer(async (request, response) => {
  const answer = (status, body, more) => response.writeHead(status, { 'Content-Type': 'application/json', ...more }).end(JSON.stringify(body))
  if (request.url === '/health') return answer(200, { status: 'healthy', service, running: running.size })
  const taskId = request.url.startsWith('/tasks/') ? request.url.slice(7) : ''
  if (request.method !== 'POST' || !Object.hasOwn(tasks, taskId)) return answer(404, { error: 'Not found' })
  const pieces = []
  let size = 0
  try {
    for await (const piece of request) {
      if ((size += piece.length) > 10_000_000) return answer(413, { error: 'The body is too large' }, { Connection: 'close' })
      pieces.push(piece)
    }
  } catch { return }
  const body = Buffer.concat(pieces)
  if (!isSigned(request, body)) return answer(401, { error: 'The signature is wrong' })
  let dispatch
  try { dispatch = JSON.parse(body) } catch { return answer(400, { error: 'The body is not JSON' }) }
  const texts = [dispatch?.runId, dispatch?.inputUrl, dispatch?.upload?.output, dispatch?.upload?.logs]
  if (!texts.every((each) => typeof each === 'string') || !/^[\w.~-]{1,300}$/.test(dispatch.runId) || Array.isArray(dispatch.upstreamRefs))
    return answer(400, { error: 'runId, inputUrl and upload are required: register with storageAccess "urls"' })
  const { runId } = dispatch
  if (!running.has(runId) && !ended.has(runId)) {
    if (isStopping) return answer(503, { error: 'The worker is about to stop' })
    if (running.size >= capacity) return answer(429, { error: 'The worker is full' }, { 'Retry-After': '1' })
    run(taskId, dispatch)
  }
  answer(202, { acknowledged: true, runId })
})

async function register(baseUrl) {
  const listed = Object.entries(tasks).map(([id, fn]) => ({ id, codeHash: createHash('sha256').update(String(fn)).digest('hex') }))
  const version = createHash('sha256').update(JSON.stringify(listed)).digest('hex').slice(0, 12)
  const body = { serviceId: service, version, baseUrl, storageAccess: 'urls', tasks: listed }
  const answer = await post('/api/services', body).catch((error) => ({ status: 503, text: () => String(error.cause || error) }))
  if (answer.ok) return true
  console.error(`registration: ${answer.status} ${await answer.text()}`)
  if (answer.status < 500 && answer.status !== 429) process.exit(1)
  return false
}

if (!secret) { console.error('set PIPEWEAVE_SECRET_KEY'); process.exit(1) }
server.listen(Number(env.PORT ?? 3002), async () => {
  const baseUrl = env.BASE_URL || `http://127.0.0.1:${server.address().port}`
  const stop = async () => {
    if (isStopping) process.exit(1)
    isStopping = true
    await post(`/api/services/${service}/instances?baseUrl=${encodeURIComponent(baseUrl)}`, undefined, 'DELETE').catch(() => {})
    for (const until = Date.now() + 30_000; running.size && Date.now() < until; ) await pause(50)
    process.exit(0)
  }
  process.on('SIGTERM', stop).on('SIGINT', stop)
  for (let wait = 500; !(await register(baseUrl)) && !isStopping; wait = Math.min(wait * 2, 30_000)) await pause(wait)
  console.log(`serving ${Object.keys(tasks)} at ${baseUrl}`)
  setInterval(() => isStopping || register(baseUrl), 60_000) // an orchestrator may have lost its data
})
