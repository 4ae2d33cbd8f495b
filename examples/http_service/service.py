from collections import Counter
from pathlib import Path

from pipeweave import Context, HttpWorker, task


@task(timeout="1m")
def count_words(ctx: Context, paths: list[str]) -> dict[str, int]:
    words: Counter[str] = Counter()
    for done, path in enumerate(paths):
        ctx.progress(100 * done / len(paths), path)
        words.update(Path(path).read_text(errors="replace").split())
    ctx.log.info("counted", extra={"files": len(paths), "words": words.total()})
    ctx.add_asset("words.json", dict(words))
    return dict(words.most_common(100))


if __name__ == "__main__":
    HttpWorker("words", tasks=[count_words]).run()
