// What earlier steps have left for an attempt: their outputs and their files.

export class Upstream {
  #refs
  #next
  #objects
  #outputs = new Map()

  constructor(dispatch, objects) {
    this.#refs = new Map(Object.entries(dispatch.upstreamRefs ?? {}))
    this.#next = dispatch.upstreamNext
    this.#objects = objects
  }

  /** The output of a completed step before this one; undefined if there is none. Loaded once. */
  async output(stepId) {
    while (!this.#refs.has(stepId) && this.#next) await this.#loadMore()
    const ref = this.#refs.get(stepId)
    if (!ref) return undefined
    if (!this.#outputs.has(stepId)) this.#outputs.set(stepId, this.#objects.readJson(ref.outputPath, ref.outputUrl))
    return this.#outputs.get(stepId)
  }

  /** The ids of all completed steps before this one. */
  async stepIds() {
    while (this.#next) await this.#loadMore()
    return [...this.#refs.keys()]
  }

  /** The bytes of a file that an earlier step has left; of several, that of the nearest. Undefined if there is none. */
  async asset(key) {
    let seen = 0
    for (;;) {
      const refs = [...this.#refs.values()]
      const nearest = refs.slice(seen).reverse().find((ref) => ref.assets?.[key])
      if (nearest) return this.#objects.read(nearest.assets[key].path, nearest.assets[key].url)
      if (!this.#next) return undefined
      seen = refs.length
      await this.#loadMore()
    }
  }

  async #loadMore() {
    const page = await this.#objects.references(this.#next)
    const more = Object.entries(page.upstreamRefs ?? {})
    for (const [stepId, ref] of more) if (!this.#refs.has(stepId)) this.#refs.set(stepId, ref)
    this.#next = more.length ? page.upstreamNext : undefined
  }
}
