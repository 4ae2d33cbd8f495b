import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { createServer } from 'node:http'
import { test } from 'node:test'
import { Attempt } from '../src/attempt.js'
import { AttemptLog, masking } from '../src/attempt_log.js'
import { readDispatch } from '../src/dispatch.js'
import { PipeWeaveError, Worker } from '../src/index.js'
import { isSigned } from '../src/signature.js'

const DISPATCH = { runId: 'trun_1.1.abc', inputPath: 'in.json', inputUrl: '/in', upload: { output: '/out', logs: '/log' } }
const SECRET = '0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef'

test('the signature of the page is taken, and one that is old, foreign or malformed is not', () => {
  const body = '{"runId":"r1","taskId":"resize","inputPath":"in.json"}'
  const mac = 'fadf7a253e4cc8fb6ba258d08cf672c81d2a1cce35172733f8b476fb9ee71542'
  const header = `t=1700000000,v1=${mac}`
  const at = 1_700_000_000_000
  assert.ok(isSigned(SECRET, header, '/tasks/resize', body, at))
  assert.ok(!isSigned(SECRET, header, '/tasks/resize', body, at + 301_000))
  assert.ok(!isSigned(SECRET, header, '/tasks/other', body, at))
  assert.ok(!isSigned(SECRET, header, '/tasks/resize', `${body} `, at))
  assert.ok(!isSigned('another', header, '/tasks/resize', body, at))
  for (const wrong of [undefined, '', 't=1,v1=', header.toUpperCase(), `${header},v1=${mac}`]) {
    assert.ok(!isSigned(SECRET, wrong, '/tasks/resize', body, at))
  }
  const negative = createHmac('sha256', SECRET).update(`-1./tasks/resize.${body}`).digest('hex')
  assert.ok(!isSigned(SECRET, `t=-1,v1=${negative}`, '/tasks/resize', body, 0))
})

test('a dispatch with unknown members is read, and one that cannot be used says which member', () => {
  assert.equal(readDispatch(JSON.stringify({ ...DISPATCH, new: 1, stepId: null })).runId, DISPATCH.runId)
  const wrong = { runId: '../x', inputUrl: 5, upload: [], attempt: 1.5, upstreamRefs: { a: 1 }, timeout: 0, secrets: { A: 1 } }
  for (const [member, value] of Object.entries(wrong)) {
    assert.throws(() => readDispatch(JSON.stringify({ ...DISPATCH, [member]: value })), new RegExp(member))
  }
  for (const body of ['', '[]', 'null', '"a"', '{', '{}']) assert.throws(() => readDispatch(body), PipeWeaveError)
})

test('values of secrets are masked in every form, and short ones are not looked for', () => {
  const mask = masking({ KEY: 'p@ss "word"', LONGER: 'p@ss "word" and more', PIN: '123' })
  const forms = ['p@ss "word"', JSON.stringify('p@ss "word"').slice(1, -1), encodeURIComponent('p@ss "word"'), btoa('p@ss "word"')]
  for (const form of forms) assert.equal(mask(`a ${form} b`), 'a *** b')
  assert.equal(mask('p@ss "word" and more'), '***')
  assert.equal(mask('123'), '123')
})

test('a log is JSON lines, bounded, with secrets masked', () => {
  const log = new AttemptLog('trun_1.1.abc', masking({ KEY: 'correct horse' }))
  log.info('key %s', 'correct horse', { a: 1 })
  for (let line = 0; line < 20_000; line += 1) log.debug(line)
  const lines = log.content().trimEnd().split('\n').map((line) => JSON.parse(line))
  assert.deepEqual([lines[0].level, lines[0].runId, lines[0].message], ['info', 'trun_1.1.abc', 'key *** { a: 1 }'])
  assert.equal(lines.length, 10_001)
  assert.equal(lines.at(-1).message, '10001 further lines were dropped')
})

test('a param that is a secret is in the input, and its value in no report', async () => {
  const server = createServer((request, response) => response.end(JSON.stringify({ host: 'db' })))
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const reports = []
  const dispatch = { ...DISPATCH, inputUrl: `http://127.0.0.1:${server.address().port}/in`, secrets: { DB: 'correct horse' }, secretParams: { password: 'DB' } }
  const inputs = []
  const task = { run: (input, context) => (inputs.push(input, context.secret('DB')), { said: `with ${input.password}` }) }
  const http = { fullUrl: (url) => url, openUrl: (url) => url }
  await new Attempt(task, dispatch, http, { complete: async (_, body) => reports.push(body), beat: async () => false }).run()
  server.close()
  assert.deepEqual(inputs, [{ host: 'db', password: 'correct horse' }, 'correct horse'])
  assert.deepEqual(reports[0].output, { said: 'with ***' })
  assert.equal(reports[0].status, 'success')
})

test('a worker without a secret, a task, or with two of one name says so', async () => {
  delete process.env.PIPEWEAVE_SECRET_KEY
  assert.throws(() => new Worker('shop'), { code: 'INVALID_SETTING' })
  assert.throws(() => new Worker('a/b', { secretKey: 'x' }), { code: 'INVALID_ID' })
  const worker = new Worker('shop', { secretKey: 'x', log: null })
  await assert.rejects(worker.start(), { code: 'INVALID_TASK' })
  worker.task('resize', () => 1)
  assert.throws(() => worker.task('resize', () => 2), { code: 'INVALID_TASK' })
  assert.throws(() => worker.task('crop', {}), { code: 'INVALID_TASK' })
})
