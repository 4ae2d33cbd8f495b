import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, beforeEach, test } from 'node:test'
import { Client, PipeWeaveError, Problem, RunFailed, Unavailable, WaitTimeout } from '../src/index.js'

const asked = []
let answers = []
const server = createServer(async (request, response) => {
  const pieces = []
  for await (const piece of request) pieces.push(piece)
  const body = Buffer.concat(pieces).toString()
  asked.push({ method: request.method, url: request.url, headers: request.headers, body: body && JSON.parse(body) })
  const [status, document] = answers.length > 1 ? answers.shift() : answers[0]
  if (status === 'cut') return request.socket.destroy()
  response.writeHead(status, { 'Content-Type': 'application/json' }).end(JSON.stringify(document))
})
await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
const url = `http://127.0.0.1:${server.address().port}`
const client = new Client({ url, token: 'pw_secret', tenant: 'shop', timeoutMs: 5_000 })

beforeEach(() => asked.splice(0))
after(() => server.close())

test('a request names token and tenant, and its body is JSON', async () => {
  answers = [[200, { pipelineRunId: 'prun_1', status: 'running' }]]
  const run = await client.trigger('lines', { folder: '.' }, { runToken: 'once' })
  assert.equal(run.pipelineRunId, 'prun_1')
  const [{ method, url: path, headers, body }] = asked
  assert.deepEqual([method, path], ['POST', '/api/pipelines/lines/trigger'])
  assert.deepEqual([headers.authorization, headers['x-tenant']], ['Bearer pw_secret', 'shop'])
  assert.deepEqual(body, { input: { folder: '.' }, runToken: 'once' })
})

test('a list is read page by page', async () => {
  answers = [[200, { runs: [{ id: 'a' }, { id: 'b' }], nextCursor: 'more' }], [200, { runs: [{ id: 'c' }], nextCursor: null }]]
  const ids = []
  for await (const run of client.runs({ status: ['failed', 'partial'] })) ids.push(run.id)
  assert.deepEqual(ids, ['a', 'b', 'c'])
  assert.equal(asked[0].url, '/api/runs?limit=500&status=failed&status=partial')
  assert.equal(new URL(asked[1].url, url).searchParams.get('cursor'), 'more')
})

test('a problem document is an error with its code, fields and hint', async () => {
  answers = [[404, { code: 'NOT_FOUND', detail: 'there is no such run', hint: 'look again', errors: [{ field: 'id' }] }]]
  await assert.rejects(client.run('prun_1'), (error) => {
    assert.ok(error instanceof Problem)
    assert.deepEqual([error.status, error.code, error.message, error.hint], [404, 'NOT_FOUND', 'there is no such run', 'look again'])
    return error.errors[0].field === 'id'
  })
})

test('a GET is sent again where no answer came, a POST is not', async () => {
  answers = [['cut'], ['cut'], [200, { id: 'prun_1' }]]
  assert.equal((await client.run('prun_1')).id, 'prun_1')
  assert.equal(asked.length, 3)
  asked.splice(0)
  answers = [['cut']]
  await assert.rejects(client.trigger('lines'), Unavailable)
  assert.equal(asked.length, 1)
})

test('a wait ends with the run', async () => {
  answers = [[200, { id: 'prun_1', status: 'running' }], [200, { id: 'prun_1', status: 'failed', error: { code: 'X', message: 'no' } }]]
  await assert.rejects(client.wait({ pipelineRunId: 'prun_1' }, { check: true }), (error) => {
    assert.ok(error instanceof RunFailed)
    return error.message === 'run prun_1 ended failed: X: no' && error.run.status === 'failed'
  })
})

test('a wait that is over says that the run goes on', async () => {
  answers = [[200, { id: 'prun_1', status: 'running' }]]
  await assert.rejects(client.wait('prun_1', { timeoutMs: 1 }), WaitTimeout)
})

test('ids cannot leave their place in a path', async () => {
  answers = [[200, {}]]
  await client.taskRun('a/../b?c')
  assert.equal(asked[0].url, '/api/task-runs/a%2F..%2Fb%3Fc')
  for (const id of ['..', '', undefined]) assert.throws(() => client.taskRun(id), PipeWeaveError)
})

test('a URL with a password or another scheme is refused', () => {
  for (const wrong of ['http://a:b@host', 'ftp://host', 'host', 'http://host?x=1']) {
    assert.throws(() => new Client({ url: wrong }), { code: 'INVALID_INPUT' })
  }
})

test('the token in the path of a URL is in no error', async () => {
  const inPath = new Client({ url: 'http://127.0.0.1:9/w/shop/pw_secret' })
  await assert.rejects(inPath.trigger('lines'), (error) => error instanceof Unavailable && !error.message.includes('pw_secret'))
})
