"""Define the files of a new project, which `pipeweave init` writes."""

from __future__ import annotations

TASKS = '''"""Tasks are plain functions; a pipeline says in which order they run."""

from pipeweave import Context, pipeline, task


@task
def split(text: str) -> list[str]:
    """Cut a text into words."""
    return text.split()


@task(timeout=30, retries=2)
def measure(word: str, ctx: Context) -> dict[str, str | int]:
    """Measure one word. Runs once for each item of the list it is mapped over."""
    ctx.log.info("measuring %r", word)
    return {"word": word, "letters": len(word)}


@task
def summarise(rows: list[dict[str, str | int]]) -> dict[str, str | int | None]:
    """Summarise the rows: starts when every word is measured."""
    longest = max(rows, key=lambda row: row["letters"], default=None)
    return {"words": len(rows), "longest": longest and longest["word"]}


@pipeline(id="@NAME@")
def word_lengths(text: str = "Durable observable pipelines on Celery"):
    """Find the longest word of a text."""
    words = split(text=text)
    return summarise(rows=measure.map(words))
'''

TESTS = '''"""Tasks and pipelines run in this process: no server, no database, no worker."""

from pipeweave.testing import run_pipeline, run_task

from tasks import split, word_lengths


def test_a_text_is_cut_at_its_spaces():
    assert run_task(split, input={"text": "one  two"}).output == ["one", "two"]


def test_the_longest_word_wins():
    run = run_pipeline(word_lengths, input={"text": "a bb ccc"})
    assert run.status == "completed"
    assert run.output == {"words": 3, "longest": "ccc"}


def test_no_words_are_fine():
    run = run_pipeline(word_lengths, input={"text": ""})
    assert run.output == {"words": 0, "longest": None}
'''

README = """# @NAME@

Tasks and a pipeline in `tasks.py`, tests in `test_tasks.py`.

Run the tests; they need nothing else:

    python -m pytest

Start PostgreSQL, Valkey, the API, beat and a worker that loads `tasks.py`. All data stay in `.pipeweave/`;
Ctrl-C stops it:

    pipeweave up --app tasks.py --reload

In a second terminal, in this folder, start a run and follow it:

    pipeweave trigger @NAME@ -i '{"text": "to be or not to be"}' --wait

Then look around:

    pipeweave runs
    pipeweave status latest
    pipeweave output latest
    pipeweave logs -f
    pipeweave tasks
    pipeweave pipelines show @NAME@
    pipeweave dry-run @NAME@

With `--reload`, a change of `tasks.py` or of a module beside it restarts the worker; without it,
`pipeweave restart` does. Tasks that changed get the next code version, a pipeline that changed gets the next
version, and runs that had begun keep theirs.
"""

ENVIRONMENT = """# Copy this file to .env: every pipeweave command in this folder reads it, and tasks see it.
# What the environment sets wins. Nothing is executed. `pipeweave config` shows every setting and its source.

# Task runs at once in a worker.
# MAX_CONCURRENCY=4

# minimal, normal or detailed.
# LOG_LEVEL=normal

# A deployment elsewhere, instead of `pipeweave up` here: for commands, and for workers of your own.
# PIPEWEAVE_ORCHESTRATOR_URL=https://pipeweave.example.com
# PIPEWEAVE_API_TOKEN=
# DATABASE_URL=postgresql://user:password@host:5432/pipeweave
# BROKER_URL=redis://:password@host:6379/0
"""

IGNORED = """.env
.pipeweave/
__pycache__/
.pytest_cache/
.venv/
*.egg-info/
"""


def files(name: str) -> dict[str, str]:
    """Return the project's files: file name -> content."""
    contents = {
        "tasks.py": TASKS,
        "test_tasks.py": TESTS,
        "README.md": README,
        ".env.example": ENVIRONMENT,
        ".gitignore": IGNORED,
    }
    return {file: content.replace("@NAME@", name) for file, content in contents.items()}
