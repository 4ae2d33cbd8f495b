// The signature that proves that a dispatch comes from the orchestrator.
import { createHmac, timingSafeEqual } from 'node:crypto'

const FORM = /^t=(\d{1,12}),v1=([0-9a-f]{64})$/
// Clocks may differ by so much.
const TOLERANCE_S = 300

/** Whether a signature fits the path and the bytes of the body. */
export function isSigned(secret, header, path, body, nowMs = Date.now()) {
  const [, at, mac] = FORM.exec(header ?? '') ?? []
  if (!at || Math.abs(nowMs / 1000 - Number(at)) > TOLERANCE_S) return false
  const wanted = createHmac('sha256', secret).update(`${at}.${path}.`).update(body).digest()
  return timingSafeEqual(Buffer.from(mac, 'hex'), wanted)
}
