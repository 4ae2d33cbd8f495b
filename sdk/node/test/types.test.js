import assert from 'node:assert/strict'
import { readFile } from 'node:fs/promises'
import { test } from 'node:test'
import { Context } from '../src/context.js'
import * as pipeweave from '../src/index.js'
import { DeadLetters } from '../src/dead_letters.js'

const types = await readFile(new URL('../src/index.d.ts', import.meta.url), 'utf8')

const bodyOf = (name) => new RegExp(`export (?:class|interface) ${name}\\b[^{]*\\{\\n([^]*?)\\n\\}`).exec(types)[1]
const membersIn = (body) => new Set([...body.matchAll(/^ {2}(?:readonly )?(\w+)(?:<[^(]*)?[(:]/gm)].map(([, name]) => name))
const methodsIn = (body) => new Set([...body.matchAll(/^ {2}(\w+)(?:<[^(]*)?\(/gm)].map(([, name]) => name))
const own = ({ prototype }) => Object.getOwnPropertyNames(prototype)

for (const kind of [pipeweave.Client, pipeweave.Worker, DeadLetters, Context]) {
  test(`the types of ${kind.name} name each of its methods, and no other`, () => {
    const body = bodyOf(kind.name)
    const members = membersIn(body)
    assert.deepEqual(own(kind).filter((name) => name !== 'constructor' && !members.has(name)), [])
    assert.deepEqual([...methodsIn(body)].filter((name) => !own(kind).includes(name)), [])
  })
}

test('the types name each export', () => {
  for (const name of Object.keys(pipeweave)) assert.match(types, new RegExp(`export (class|const) ${name}\\b`))
})
