// A service and a client with the SDK for Node, in one process: tests/flows/http/test_node_sdk.py starts it.
import { Client, RunFailed, TaskError, Worker } from '../../sdk/node/src/index.js'

const { CLIENT_URL, CLIENT_TOKEN } = process.env
const client = new Client({ url: CLIENT_URL, token: CLIENT_TOKEN })
const worker = new Worker('node-shop', { host: '127.0.0.1', port: 0, log: null })

worker.task('node-price', async (input, context) => {
  await context.progress(50, 'half')
  context.addAsset('note.txt', `${input.sku}: 12`)
  return { price: 12, filling: 'x'.repeat(40_000) }
})

worker.task('node-total', async (input, context) => {
  const { price, filling } = await context.upstream('price')
  const note = await context.asset('note.txt')
  context.log.info('price %d for %s', price, input.sku)
  if (input.count < 0) throw new TaskError('a negative count', { code: 'NEGATIVE', retryable: false, details: { count: input.count } })
  return { total: price * input.count, note: note.toString(), filled: filling.length, steps: await context.upstreamSteps() }
})

await worker.start()
await client.putPipeline('node-order', {
  id: 'node-order',
  steps: [{ id: 'price', task: 'node-price' }, { id: 'total', task: 'node-total' }],
})
const run = await client.wait(await client.trigger('node-order', { sku: 'a', count: 2 }, { runToken: 'order-1' }), { check: true })
const again = await client.trigger('node-order', { sku: 'a', count: 2 }, { runToken: 'order-1' })
const failed = await client
  .wait(await client.trigger('node-order', { sku: 'b', count: -1 }), { check: true })
  .catch((error) => (error instanceof RunFailed ? error.run : Promise.reject(error)))
const letters = []
for await (const letter of client.dlq.all({ pipelineId: 'node-order' })) letters.push(letter)
const discarded = await client.dlq.discard(letters[0].id, { reason: 'seen' })
const listed = []
for await (const each of client.runs({ pipelineId: 'node-order', limit: 1 })) listed.push(each.id)
const taskRuns = []
for await (const each of client.taskRuns(run)) taskRuns.push(each.stepId)
const services = []
for await (const each of client.services()) services.push(each.id)
await worker.stop()
console.log(JSON.stringify({ run, again, failed, letters, discarded, listed, taskRuns, services }))
