// Lists of the API, page by page, and names in paths.
import { PipeWeaveError } from './errors.js'

const PAGE_SIZE = 500

/** A name as a part of a path. */
export function part(name) {
  if (typeof name !== 'string' || name === '' || /^\.+$/.test(name)) {
    throw new PipeWeaveError(`${JSON.stringify(name)} is no id`, { code: 'INVALID_INPUT', hint: 'pass the id as a text' })
  }
  return encodeURIComponent(name)
}

/** Every row of a list; a page is asked for when its first row is wanted. */
export async function* everyRow(http, path, member, filters) {
  let cursor
  do {
    const page = await http.get(path, { limit: PAGE_SIZE, ...filters, cursor })
    yield* page[member]
    cursor = page.nextCursor
  } while (cursor)
}
