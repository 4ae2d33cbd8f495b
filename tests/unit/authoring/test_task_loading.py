"""Files that are loaded as apps, beside the modules that Python has loaded already."""

from __future__ import annotations

import email
import logging
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipeweave.authoring import task_loading
from pipeweave.errors import InvalidInput

TASK = """
from pipeweave import task

@task(id={id!r})
def send() -> None:
    pass
"""


@pytest.fixture(autouse=True)
def clean_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules, paths and tasks that a test adds are gone after it, and tasks of other tests are not there."""
    definitions = sys.modules["pipeweave.authoring.task"]
    monkeypatch.setattr(definitions, "_registry", {})
    monkeypatch.setattr(definitions, "_duplicates", {})
    monkeypatch.setattr(sys.modules["pipeweave.authoring.pipeline"], "_registry", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = dict(sys.modules)
    for name in [each for each in before if each.startswith(task_loading.BUILT_IN_APP)]:
        del sys.modules[name]
    yield
    for name in set(sys.modules) - set(before):
        del sys.modules[name]
    sys.modules.update(before)


def test_a_file_with_the_name_of_a_loaded_module_does_not_replace_it(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text(TASK.format(id="task_loading.one"))
    loaded = task_loading.load([str(path)])
    assert "task_loading.one" in loaded.tasks
    assert sys.modules["email"] is email


def test_a_file_that_fails_to_load_leaves_the_module_of_its_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text("raise ValueError('it is broken')")
    with pytest.raises(InvalidInput, match="it is broken"):
        task_loading.load([str(path)])
    assert sys.modules["email"] is email


def test_a_file_that_is_named_twice_is_loaded_once(tmp_path: Path) -> None:
    path = tmp_path / "email.py"
    path.write_text(TASK.format(id="task_loading.two"))
    task_loading.load([str(path), str(tmp_path)])
    modules = [each for each in sys.modules.values() if getattr(each, "__file__", None) == str(path)]
    assert len(modules) == 1


def refused(app: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as error:
        task_loading.load([app])
    return error.value


def test_an_error_of_the_code_is_shown_with_file_line_and_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_settings.py").write_text(
        "import os\n\n\ndef url():\n    return {}['config']\n\n\nurl()\n"
    )
    (tmp_path / "shop_tasks.py").write_text("import shop_settings\n")
    monkeypatch.chdir(tmp_path)
    error = refused("shop_tasks.py")
    assert error.detail == (
        "shop_tasks.py cannot be loaded: KeyError: 'config' (shop_settings.py:5: `return {}['config']`; "
        "called by shop_settings.py:8: `url()`; called by shop_tasks.py:1: `import shop_settings`)"
    )
    assert "importlib" not in error.detail
    assert error.hint == "correct the code and start again"


def test_a_syntax_error_is_shown_with_file_line_and_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_broken.py").write_text("x = 1\ndef f(:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    assert refused("shop_broken.py").detail.endswith(
        "SyntaxError: invalid syntax (shop_broken.py:2: `def f(:`)"
    )


def test_an_error_inside_a_library_shows_the_line_that_called_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "shop_json.py").write_text("import json\nrows = json.loads('{')\n")
    monkeypatch.chdir(tmp_path)
    assert refused("shop_json.py").detail.endswith("(shop_json.py:2: `rows = json.loads('{')`)")


def test_a_module_that_does_not_exist_is_told_what_an_app_may_be() -> None:
    error = refused("no_such_module")
    assert error.detail == (
        "no_such_module cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"
    )
    assert error.hint == "--app takes a module, a file or a folder"


def test_frames_of_the_standard_library_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "shop_env.py").write_text("import os\nURL = os.environ['NO_SUCH_SHOP']\n")
    monkeypatch.chdir(tmp_path)
    assert refused("shop_env.py").detail.endswith("(shop_env.py:2: `URL = os.environ['NO_SUCH_SHOP']`)")


def test_a_mistake_in_an_option_is_shown_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from pipeweave import task\n\n\n@task(max_retries=3)\ndef charge(): ...\n"
    (tmp_path / "shop_option.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    error = refused("shop_option.py")
    assert error.detail == "max_retries is not an option of a task (shop_option.py:4)"
    assert error.further_errors == ()


def test_the_place_of_a_mistake_is_in_the_file_and_not_in_generated_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from pipeweave import task\n\n\n@task(timeout='soon', retries=-3)\ndef charge(): ...\n"
    (tmp_path / "shop_place.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    error = refused("shop_place.py")
    assert error.detail.endswith("(shop_place.py:4)")


def test_a_method_is_no_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = "from pipeweave import task\n\n\nclass Shop:\n    @task\n    def run(self, x: int): ...\n"
    (tmp_path / "shop_method.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    error = refused("shop_method.py")
    assert error.detail.startswith("Shop.run is a method")
    assert error.hint is not None and "outside the class" in error.hint


def test_a_task_of_celery_is_told_apart_from_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        "from celery import shared_task\nfrom pipeweave import task\n\n\n"
        "@task\n@shared_task\ndef charge(): ...\n"
    )
    (tmp_path / "shop_celery.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    assert "is a task of Celery already: put @task alone" in refused("shop_celery.py").detail


INNER = """
from pipeweave import pipeline, task

@task
def send(to: str) -> None: ...

@pipeline
def one_letter(to: str):
    send(to)
"""
OUTER = """
from letters_inside import one_letter
from pipeweave import pipeline

@pipeline
def all_letters(names: list[str]):
    one_letter.map(names)
"""


def test_a_pipeline_that_another_one_calls_is_loaded_with_it(tmp_path: Path) -> None:
    (tmp_path / "letters_inside.py").write_text(INNER)
    (tmp_path / "letters.py").write_text(OUTER)
    loaded = task_loading.load([str(tmp_path / "letters.py")])
    assert {each.id for each, _ in loaded.pipelines} == {"one_letter", "all_letters"}


OWN_REQUEST = """
from pipeweave import action, adapter, task

@task(id="http.request")
def request(url: str) -> str:
    return url

@adapter("log")
class Log:
    @action
    def count(self) -> int:
        return 1
"""


def test_a_task_of_the_users_takes_the_place_of_a_built_in_action(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_REQUEST)
    tasks = task_loading.load([str(tmp_path / "own.py")], with_adapters=True).tasks
    assert tasks["http.request"].fn("a") == "a"
    assert {"log.count", "log.write", "webhook.send"} <= tasks.keys()


def test_a_built_in_action_that_is_loaded_first_gives_way_too(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN_REQUEST)
    tasks = task_loading.load([task_loading.BUILT_IN_APP, str(tmp_path / "own.py")]).tasks
    assert tasks["http.request"].fn("a") == "a"


def test_an_app_without_tasks_is_refused_beside_the_built_in_adapters_too(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(InvalidInput, match=r"no tasks found in .*empty\.py"):
        task_loading.load([str(tmp_path / "empty.py")], with_adapters=True)
    assert "http.request" in task_loading.load([task_loading.BUILT_IN_APP]).tasks


def test_documents_need_no_tasks_of_the_users_beside_the_built_in_adapters(tmp_path: Path) -> None:
    (tmp_path / "ping.yaml").write_text(
        "id: ping\nsteps: [{adapter: http, action: request, params: {url: x}}]"
    )
    loaded = task_loading.load([str(tmp_path)], with_adapters=True)
    assert [spec.id for spec, _ in loaded.pipelines] == ["ping"]


def test_the_log_says_how_many_definitions_were_loaded_from_where(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "letters_inside.py").write_text(INNER)
    (tmp_path / "letters.py").write_text(OUTER)
    (tmp_path / "nightly.yaml").write_text("id: nightly\nsteps: [{id: a, task: one}]")
    with caplog.at_level(logging.INFO, logger=task_loading.__name__):
        loaded = task_loading.load([str(tmp_path)])
    (said,) = [each for each in caplog.records if each.message == "definitions.loaded"]
    counts = {name: vars(said)[name] for name in ("tasks", "pipelines", "apps")}
    assert counts == {"tasks": len(loaded.tasks), "pipelines": 3, "apps": [str(tmp_path)]}


def test_tasks_without_a_pipeline_are_refused_where_pipelines_are_required(tmp_path: Path) -> None:
    (tmp_path / "single.py").write_text(TASK.format(id="single"))
    assert task_loading.load([str(tmp_path)]).pipelines == []
    with pytest.raises(InvalidInput, match="no pipelines found in") as refused:
        task_loading.load([str(tmp_path)], requires_pipelines=True)
    assert "REQUIRE_PIPELINES" in str(refused.value.hint)
    (tmp_path / "nightly.yaml").write_text("id: nightly\nsteps: [{id: a, task: single}]")
    assert len(task_loading.load([str(tmp_path)], requires_pipelines=True).pipelines) == 1
