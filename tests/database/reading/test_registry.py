"""Services, tasks and pipelines as the API reads them."""

from __future__ import annotations

from support.factories import a_chain, a_task, all_pages, register

from pipeweave.orchestrator import reading
from pipeweave.orchestrator.registry import instances, pipelines, service_settings, worker_processes
from pipeweave.orchestrator.store.database import Transaction
from pipeweave.orchestrator.store.keyset import PageRequest
from pipeweave.spec import parse_spec

TENANT = "query-tests"


def test_services_are_listed_by_id_page_by_page(tx: Transaction) -> None:
    for name in ("c", "a", "b"):
        register(tx, TENANT, f"task-{name}", id=name)
    listed = all_pages(lambda page: reading.services(tx, TENANT, page), 2)
    assert [each["id"] for each in listed] == ["a", "b", "c"]


def test_a_service_shows_its_tasks_and_living_workers(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b")
    worker_processes.register(tx, TENANT, worker_processes.WorkerStart("python", "w@host", "host", 1, 2))
    found = reading.service(tx, TENANT, "python")
    assert (found["taskCount"], found["workerCount"], found["status"]) == (2, 1, "active")
    assert found["queue"] == f"pipeweave.{TENANT}.python"
    assert found["registeredAt"].endswith("Z") and found["lastHeartbeat"].endswith("Z")


def test_tasks_are_listed_for_the_tenant_or_one_service(tx: Transaction) -> None:
    register(tx, TENANT, "a", "c", id="one")
    register(tx, TENANT, a_task("b", retries=2, timeout=5), id="two")
    listed = all_pages(lambda page: reading.tasks(tx, TENANT, page), 2)
    assert [each["id"] for each in listed] == ["a", "b", "c"]
    (only,) = reading.tasks(tx, TENANT, PageRequest(), service_id="two")["items"]
    assert (only["id"], only["retries"], only["maxAttempts"], only["timeout"]) == ("b", 2, 3, 5)


def test_an_input_schema_is_shown_when_there_is_one(tx: Transaction) -> None:
    schema = {"fields": [{"name": "n", "type": "number", "label": "N"}]}
    register(tx, TENANT, "without", a_task("with", input_schema=schema))
    assert reading.input_schema(tx, TENANT, "with") == {"taskId": "with", "hasSchema": True, "schema": schema}
    assert reading.input_schema(tx, TENANT, "without")["hasSchema"] is False


def test_the_history_of_a_task_is_newest_first(tx: Transaction) -> None:
    for code in ("one", "two", "three"):
        register(tx, TENANT, a_task("a", code))
    listed = all_pages(lambda page: reading.task_history(tx, TENANT, "a", page), 2)
    assert [each["codeVersion"] for each in listed] == [3, 2, 1]


def test_pipelines_are_listed_in_their_latest_version_without_specs(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b")
    for tasks in (("a",), ("a", "b")):
        pipelines.store(tx, TENANT, a_chain(*tasks), source="document")
    pipelines.store(tx, TENANT, a_chain("b", id="another"), source="api")
    listed = all_pages(lambda page: reading.pipeline_list(tx, TENANT, page), 1)
    assert [(each["id"], each["version"], each["stepCount"]) for each in listed] == [
        ("another", 1, 1),
        ("chain", 2, 2),
    ]
    assert all("spec" not in each for each in listed)


def test_a_pipeline_is_shown_with_its_spec_in_any_version(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b")
    for tasks in (("a",), ("a", "b")):
        pipelines.store(tx, TENANT, a_chain(*tasks), source="document")
    latest, first = reading.pipeline(tx, TENANT, "chain"), reading.pipeline(tx, TENANT, "chain", 1)
    assert (latest["version"], latest["spec"]) == (2, a_chain("a", "b").to_json())
    assert (first["version"], first["specHash"]) == (1, a_chain("a").spec_hash)


def test_a_pipeline_shows_where_it_begins_and_ends(tx: Transaction) -> None:
    register(tx, TENANT, "a", "b", "c")
    steps = [
        {"id": "one", "task": "a"},
        {"id": "two", "task": "a", "needs": []},
        {"id": "join", "task": "b", "needs": ["one", "two"]},
        {"id": "left", "task": "c", "needs": ["join"]},
        {"id": "right", "task": "c", "needs": ["join"]},
    ]
    pipelines.store(tx, TENANT, parse_spec({"steps": steps}, id="joined"), source="api")
    found = reading.pipeline(tx, TENANT, "joined")
    assert (found["entrySteps"], found["endSteps"]) == (["one", "two"], ["left", "right"])
    assert (found["entryTasks"], found["endTasks"]) == (["a"], ["c"])


def test_an_http_service_shows_its_instances_and_those_that_take_dispatches_first(tx: Transaction) -> None:
    for number in (1, 2):
        register(tx, TENANT, "a", id="node", kind="http", base_url=f"http://10.0.0.{number}:3001")
    instances.set_aside(tx, TENANT, "node", "http://10.0.0.1:3001", "it does not answer")
    found = reading.service(tx, TENANT, "node")
    assert [each["baseUrl"] for each in found["instances"]] == [
        "http://10.0.0.2:3001",
        "http://10.0.0.1:3001",
    ]
    ready, aside = found["instances"]
    assert (ready["setAsideAt"], ready["refusals"], ready["tasks"]) == (None, 0, ["a"])
    assert (aside["refusals"], aside["lastError"]) == (1, "it does not answer")
    assert aside["setAsideAt"] is not None and aside["probeAt"] is not None
    assert (found["instanceCount"], found["readyInstances"]) == (2, 1)
    assert (found["storageAccess"], found["tokenFormat"]) == ("token", "sdk")
    (listed,) = reading.services(tx, TENANT, PageRequest())["items"]
    assert listed == {name: value for name, value in found.items() if name != "instances"}
    assert reading.task(tx, TENANT, "a")["workerCount"] == 1


def test_a_service_shows_what_operators_decided(tx: Transaction) -> None:
    register(tx, TENANT, "a", id="node", kind="http", base_url="http://10.0.0.1:3001")
    service_settings.change(tx, TENANT, "node", base_url="http://node:3001", is_disabled=True)
    found = reading.service(tx, TENANT, "node")
    assert found["baseUrlOverride"] == "http://node:3001"
    assert found["disabledAt"].endswith("Z")
    assert [each["baseUrl"] for each in found["instances"]] == ["http://node:3001"]
