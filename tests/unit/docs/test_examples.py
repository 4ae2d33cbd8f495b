"""The examples run, and the program in the README is one of them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from http.server import ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import ModuleType

import pytest
from support.pages import ROOT, blocks

from pipeweave.authoring import load_documents
from pipeweave.authoring.task import collect
from pipeweave.spec import derive
from pipeweave.testing import run_pipeline


def example(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", ROOT / f"examples/{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    # Where the names in the hints of its tasks are looked up.
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_the_program_in_the_readme_is_the_example() -> None:
    program = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert program
    assert program[1] == (ROOT / "examples/lines.py").read_text()


def test_the_list_of_examples_names_each_and_a_folder_has_a_readme() -> None:
    listed = re.findall(r"^\| \[.+?\]\((.+?)\)", (ROOT / "examples/README.md").read_text(), re.MULTILINE)
    tracked = subprocess.run(["git", "ls-files", "examples"], cwd=ROOT, capture_output=True, text=True).stdout
    names = {Path(each).parts[1] for each in tracked.split()} - {"README.md"}
    expected = {f"{name}/README.md" if (ROOT / "examples" / name).is_dir() else name for name in names}
    assert set(listed) == expected
    assert [each for each in listed if not (ROOT / "examples" / each).is_file()] == []


def test_a_worker_loads_all_examples_together() -> None:
    """As `pipeweave up --app examples` does: no two of them define the same task."""
    program = "from pipeweave.authoring.task_loading import load; print(len(load(['examples']).tasks))"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["beside_celery", "instead_of_a_chord"])
def test_a_program_on_the_page_about_celery_is_the_example(name: str) -> None:
    assert (ROOT / f"examples/{name}.py").read_text() in blocks(ROOT / "docs/beside-your-celery.md", "python")


def test_what_a_chord_becomes_gives_the_body_all_results_in_order() -> None:
    result = run_pipeline(example("instead_of_a_chord").make_album, input={"names": ["a", "b", "c"]})
    assert (result.status, result.output) == ("completed", "small-a, small-b, small-c")


def test_the_program_in_the_readme_counts_lines(tmp_path: Path) -> None:
    (tmp_path / "one.py").write_text("a = 1\n")
    (tmp_path / "two.py").write_text("b = 1\nc = 2\n")
    result = run_pipeline(example("lines").lines_of_code, input={"folder": str(tmp_path)})
    assert (result.status, result.output) == ("completed", {"files": 2, "lines": 3})


@pytest.mark.parametrize(
    ("amount", "way", "other"), [(20, "charged", "ask_a_person"), (2000, "approved", "charge_card")]
)
def test_an_order_goes_the_way_its_amount_says(amount: int, way: str, other: str) -> None:
    tasks = collect(example("orders"))
    (spec,) = derive(task.spec for task in tasks.values())
    result = run_pipeline(spec, input={"amount": amount}, tasks=tasks)
    assert result.status == "completed"
    assert result.steps["send_receipt"].output == way
    assert result.steps[other].status == "skipped"


@pytest.mark.parametrize(("takes", "ends"), [(set(), "failed"), ({"stolen"}, "completed")])
def test_the_shop_of_the_examples_is_charged_until_the_bank_refuses_a_card(
    monkeypatch: pytest.MonkeyPatch, takes: set[str], ends: str
) -> None:
    shop, charging = example("shop_service"), example("charge_orders")
    monkeypatch.setattr(shop, "REFUSED", shop.REFUSED - takes)
    with ThreadingHTTPServer(("127.0.0.1", 0), shop.Shop) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setattr(charging, "SHOP_URL", f"http://127.0.0.1:{server.server_port}")
        result = run_pipeline(charging.charge_orders, input={"day": "2026-11-22"})
        server.shutdown()
    assert result.status == ends
    if ends == "completed":
        assert result.output == {"day": "2026-11-22", "charged": 3, "total": "2680.25", "reviewed": ["o-2"]}


def test_the_order_document_uses_the_same_tasks() -> None:
    (spec,) = load_documents(ROOT / "examples/orders.yaml")
    result = run_pipeline(spec, input={"amount": 20, "orderId": "o-1"}, tasks=collect(example("orders")))
    assert result.steps["charge_card"].output == "charge 20"
    assert result.steps["ask_a_person"].status == "skipped"
    assert result.steps["done"].output == "order o-1 is done"
