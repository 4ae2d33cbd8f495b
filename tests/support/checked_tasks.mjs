// Tasks of a worker that the conformance kit checks, with the SDK for Node.
import { suspend, TaskError, Worker } from '../../sdk/node/src/index.js'

const worker = new Worker('checked', { host: '127.0.0.1', port: 0 })
const options = { heartbeatIntervalMs: 1_000 }

worker.task('note', options, (input, context) => {
  const letters = input.letters ?? 'a note'
  context.addAsset('note.txt', letters)
  context.log.info('a note was written')
  return letters.length
})

worker.task('slow', options, async (input, { signal }) => {
  await new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, (input.seconds ?? 5) * 1000)
    signal.addEventListener('abort', () => {
      clearTimeout(timer)
      reject(signal.reason)
    })
  })
})

worker.task('fail', () => {
  throw new TaskError('the card was declined', { code: 'CARD_DECLINED' })
})

worker.task('submit', (input, context) => {
  context.log.info('it will be reported to a URL of %d letters', context.callbackUrl.length)
  return suspend.callback({ timeoutMs: 3_600_000 })
})

await worker.run()
