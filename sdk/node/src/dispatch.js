// Reads the body of a dispatch. Members that are not known are left alone.
import { PipeWeaveError } from './errors.js'

const RUN_ID = /^(?!\.+$)[A-Za-z0-9._~-]{1,300}$/
const isText = (value) => typeof value === 'string'
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)
const isObjects = (value) => isObject(value) && Object.values(value).every(isObject)
const isTexts = (value) => isObject(value) && Object.values(value).every(isText)
const isWhole = (value) => Number.isInteger(value) && value >= 0
const isPositive = (value) => typeof value === 'number' && value > 0

// Member -> what it must be, and how that is said. Of these, the first four must be there.
const RULES = {
  runId: [(value) => isText(value) && RUN_ID.test(value), 'letters, digits and . _ ~ -'],
  inputPath: [isText, 'a text'],
  inputUrl: [isText, 'a text: register with storageAccess "urls"'],
  upload: [(value) => isObject(value) && isText(value.output) && isText(value.logs), 'an object with output and logs'],
  taskId: [isText, 'a text'],
  tenant: [isText, 'a text'],
  pipelineRunId: [isText, 'a text'],
  pipelineId: [isText, 'a text'],
  stepId: [isText, 'a text'],
  attempt: [isWhole, 'a whole number'],
  codeVersion: [isWhole, 'a whole number'],
  codeHash: [isText, 'a text'],
  upstreamRefs: [isObjects, 'an object of objects'],
  upstreamNext: [isText, 'a text'],
  previousAttempts: [(value) => Array.isArray(value) && value.every(isObject), 'a list of objects'],
  heartbeatIntervalMs: [isPositive, 'a number above 0'],
  timeout: [isPositive, 'a number above 0'],
  mapIndex: [isWhole, 'a whole number'],
  mapName: [isText, 'a text'],
  uploads: [isObjects, 'an object of objects'],
  triggeredBy: [isObject, 'an object'],
  traceId: [isText, 'a text'],
  callbackUrl: [isText, 'a text'],
  secrets: [isTexts, 'an object of texts'],
  secretParams: [isTexts, 'an object of texts'],
}
const REQUIRED = new Set(['runId', 'inputPath', 'inputUrl', 'upload'])

/** The dispatch in a body; throws for one that cannot be used. */
export function readDispatch(body) {
  let document
  try {
    document = JSON.parse(body)
  } catch {
    throw refused('the body is not JSON')
  }
  if (!isObject(document)) throw refused('the body must be a JSON object')
  for (const [name, [accepts, expected]] of Object.entries(RULES)) {
    const value = document[name] ?? undefined
    if (value === undefined ? REQUIRED.has(name) : !accepts(value)) throw refused(`${name} must be ${expected}`)
  }
  return document
}

const refused = (message) => new PipeWeaveError(message, { code: 'INVALID_INPUT' })
