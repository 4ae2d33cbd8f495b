"""What `pip install pipeweave` brings is enough for tasks, tests, the client and its commands.

A process of its own refuses every import of a package that is not among the base dependencies, or theirs.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import distribution, packages_distributions, requires

from support.pages import ROOT
from support.stub_http_server import Served

_REFUSE = """
import sys
from importlib.abc import MetaPathFinder

refused = set(sys.argv.pop(1).split(","))


class Refuse(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in refused:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


sys.meta_path.insert(0, Refuse())
"""

TASKS = """
from pipeweave import Client, Context, TaskResult, pipeline, task
from pipeweave.testing import run_pipeline, run_task


@task(retries=1)
def double(number: int) -> int:
    return 2 * number


@pipeline
def doubled(number: int = 2):
    return double(number)


assert run_task(double, input={"number": 3}).output == 6
assert run_pipeline(doubled, input={"number": 4}).status == "completed"
"""

CLIENT = """
import asyncio
from pipeweave import AsyncClient, Client

url = sys.argv.pop(1)
assert Client(url, "t").info() == {"version": "1"}


async def ask():
    async with AsyncClient(url, "t") as client:
        return await client.info()


assert asyncio.run(ask()) == {"version": "1"}
"""

COMMANDS = """
from click.testing import CliRunner
from pipeweave.cli import main


def call(*arguments, env=None):
    return CliRunner(env=env or {}).invoke(main, arguments)
"""


def without_extras(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-P", "-c", _REFUSE + code, ",".join(sorted(_refused())), *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def _refused() -> set[str]:
    return packages_distributions().keys() - _allowed() - {"pipeweave"}


def _allowed() -> set[str]:
    """The modules of the base dependencies, of their dependencies and so on."""
    base = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    needed, waiting = set(), {_normal(each) for each in base}
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting |= _requirements(name)
    return {
        module
        for module, owners in packages_distributions().items()
        if needed & {_normal(owner) for owner in owners}
    }


def _requirements(name: str) -> set[str]:
    texts = [each for each in requires(name) or () if "extra ==" not in each.replace("'", '"')]
    return {each for each in map(_normal, texts) if _is_installed(each)}


def _is_installed(name: str) -> bool:
    try:
        distribution(name)
    except ModuleNotFoundError:
        return False
    return True


def _normal(requirement: str) -> str:
    """The normal form of the name that begins a requirement."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_servers_are_not_among_the_base_dependencies() -> None:
    assert not _allowed() & {"flask", "celery", "sqlalchemy", "psycopg2", "gunicorn", "alembic", "redis"}


def test_tasks_and_their_tests_need_no_extra() -> None:
    done = without_extras(TASKS)
    assert done.returncode == 0, done.stderr


def test_the_clients_need_no_extra(served: Served) -> None:
    served.put("GET /api/info", (200, {"version": "1"}), (200, {"version": "1"}))
    done = without_extras(CLIENT, served.url)
    assert done.returncode == 0, done.stderr


def test_help_needs_no_extra() -> None:
    done = without_extras(
        COMMANDS
        + """
for name in main.list_commands(None):
    answer = call(name, "--help")
    assert answer.exit_code == 0, (name, answer.output, answer.exception)
assert call("config").exit_code == 0
"""
    )
    assert done.returncode == 0, done.stderr


def test_commands_for_a_remote_orchestrator_need_no_extra(served: Served) -> None:
    served.put("GET /api/pipelines", (200, {"pipelines": [], "nextCursor": None}))
    code = f"answer = call('pipelines', 'list', '--url', {served.url!r}, '--token', 't')"
    done = without_extras(f"{COMMANDS}\n{code}\nassert answer.exit_code == 0, answer.output")
    assert done.returncode == 0, done.stderr


def test_a_command_without_its_extra_says_what_to_install() -> None:
    cases = {
        "worker": ("worker --app tasks.py", "beat"),
        "server": ("api", "db migrate", "token list", "doctor"),
        "up": ("up", "demo"),
    }
    done = without_extras(
        COMMANDS
        + f"""
for extra, lines in {cases}.items():
    for line in lines:
        answer = call(*line.split(), env=dict(DATABASE_URL="postgresql://x/y", BROKER_URL="redis://x/0"))
        said = f"pipeweave: MISSING_EXTRA: `pipeweave {{line.split()[0]}}` needs packages that are not"
        assert answer.exit_code == 1, (line, answer.output)
        assert answer.stderr.startswith(said), (line, answer.stderr)
        assert answer.stderr.endswith(f"pip install 'pipeweave[{{extra}}]'\\n"), (line, answer.stderr)
"""
    )
    assert done.returncode == 0, done.stderr
