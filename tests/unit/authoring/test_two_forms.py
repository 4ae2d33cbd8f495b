"""A pipeline written in Python and the same one written as a document have equal specs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest
import yaml

from pipeweave import (
    Retry,
    approval,
    body,
    either,
    loop,
    otherwise,
    pipeline,
    settle,
    sleep,
    sleep_until,
    task,
    transform,
    wait_for_signal,
    when,
)
from pipeweave.spec import parse_spec


@dataclass
class Refund:
    amount: float
    reason: str = ""


@task
def reserve(order: dict[str, Any]) -> dict[str, Any]:
    return {"shelf": 4}


@task
def charge(order: dict[str, Any]) -> dict[str, Any]:
    return {}


@task
def ship(order: dict[str, Any], paid: Any) -> dict[str, Any]:
    return {}


@task
def tell(order: dict[str, Any]) -> None: ...


@task
def refund(paid: Any) -> None: ...


@task
def publish(place: str) -> str:
    return place


@task
def archive(places: Any) -> None: ...


@pipeline(variables={"limit": 1000, "gross": "${input.order.net * 1.2}"}, timeout="14d")
def process_order(order: dict[str, Any]) -> None:
    stock = reserve(order)
    with when("input.order.total > variables.limit", step_id="size"):
        ok = approval(
            "Ship order ${input.order.id} for ${input.order.total} €?",
            step_id="ok",
            assignees=["group:finance"],
            form=Refund,
            context={"stock": stock},
            timeout="2d",
            default={"approved": False},
            four_eyes=True,
        )
    with when(either(ok["approved"], True), name="pays"):
        paid = charge.options(
            needs=[stock],
            retry=Retry(attempts=4, retry_on=["HTTP_503"]),
            timeout="30s",
            continue_on_error=True,
        )(order)
        sent = ship(order, paid)
        arrived = wait_for_signal("delivered", "returned", needs=[sent], timeout="10d")
    with otherwise(order["vip"] == True, name="vip"):  # noqa: E712
        sleep("1h")
    with otherwise():
        tell(order)
    with when((arrived["name"] == "returned") & ~arrived["payload"]["lost"].in_(["yes"])):
        refund(paid)


PROCESS_ORDER = """
id: process_order
variables: {limit: 1000, gross: "${input.order.net * 1.2}"}
timeout: 14d
inputSchema: {strict: true, fields: [{name: order, label: Order, type: object, required: true}]}
steps:
  - {id: reserve, task: reserve, params: {order: "${input.order}"}}
  - id: size
    needs: []
    choice:
      - condition: "input.order.total > variables.limit"
        steps:
          - id: ok
            approval:
              title: "Ship order ${input.order.id} for ${input.order.total} €?"
              assignees: ["group:finance"]
              form:
                strict: true
                fields:
                  - {name: amount, label: Amount, type: number, required: true}
                  - {name: reason, label: Reason, type: string, required: false}
              context: {stock: "${steps.reserve}"}
              timeout: 2d
              default: {approved: false}
              fourEyes: true
  - id: choice
    needs: []
    choice:
      - name: pays
        condition: "steps.ok.approved ?? true"
        steps:
          - id: charge
            needs: [reserve]
            task: charge
            params: {order: "${input.order}"}
            retry: {attempts: 4, retry_on: [HTTP_503]}
            timeout: 30s
            continue_on_error: true
          - {id: ship, task: ship, params: {order: "${input.order}", paid: "${steps.charge}"}}
          - {id: signal, signal: {names: [delivered, returned], timeout: 10d}}
      - name: vip
        condition: "input.order.vip == true"
        steps: [{sleep: 1h}]
      - steps: [{task: tell, params: {order: "${input.order}"}}]
  - id: choice_2
    needs: []
    choice:
      - condition: "steps.signal.name == 'returned' && !(steps.signal.payload.lost in ['yes'])"
        steps: [{task: refund, params: {paid: "${steps.charge}"}}]
"""


@pipeline(failure_mode="continue", on_exhausted="fail")
def publish_everywhere(places: list[str], at: str) -> Any:
    start = sleep_until(at)
    with settle(step_id="everywhere") as everywhere:
        web = publish.options(step_id="web", needs=[start])(places[0])
        publish.options(step_id="feed", needs=[web], condition=web != None)("feed")  # noqa: E711
    total = transform(
        {"first": places[0], "title": "all of ${input.at}"},
        fail_if=[(everywhere["web"] == None, "NOT_PUBLISHED", "not at ${input.at}")],  # noqa: E711
        condition="status.web == 'completed'",
        step_id="total",
    )
    archive.options(join="all-done", needs=[total], on_exhausted="pause")(everywhere)
    archive.options(join=1, needs=[start, total])("anywhere")
    return {"total": total["first"], "both": places[0] + places[1]}


PUBLISH = """
id: publish_everywhere
failureMode: continue
onExhausted: fail
inputSchema:
  strict: true
  fields:
    - name: places
      label: Places
      type: array
      required: true
      items: {name: item, label: Item, type: string}
    - {name: at, label: At, type: string, required: true}
steps:
  - {sleepUntil: "${input.at}"}
  - id: everywhere
    parallel:
      failure: settle
      steps:
        - {id: web, task: publish, params: {place: "${input.places[0]}"}, needs: [sleep]}
        - {id: feed, task: publish, params: {place: feed}, needs: [web], condition: "steps.web != null"}
  - id: total
    transform:
      output: {first: "${input.places[0]}", title: "all of ${input.at}"}
      failIf:
        - {condition: "steps.everywhere.web == null", code: NOT_PUBLISHED, message: "not at ${input.at}"}
    condition: "status.web == 'completed'"
  - task: archive
    join: all-done
    needs: [total]
    onExhausted: pause
    params: {places: "${steps.everywhere}"}
  - {task: archive, join: any, needs: [sleep, total], params: {places: anywhere}}
output: {total: "${steps.total.first}", both: "${input.places[0] + input.places[1]}"}
"""


@pipeline(variables={"least": 1})
def publish_by_night(places: list[str], day: str) -> None:
    stock = reserve.options(step_id="stock")({})
    with when(places[0] != ""):
        shelf = transform(stock["shelf"], step_id="shelf")

        @body
        def one_page(page: str, note: str, extra: Any = None) -> Any:
            made = publish.options(step_id="made")(page)
            with when((made != "") & (shelf > 3)):
                tell({"page": made, "note": note, "day": day})
                with settle() as copies:
                    publish.options(step_id="copy")(stock["shelf"])
            return transform({"made": made}, step_id="shown", needs=["tell", copies])

        pages = one_page.options(needs=[shelf]).map(places, max_parallel=20, failure="partial", note="a note")

    @body
    def look(question: str) -> Any:
        return approval(question, step_id="right", context={"n": loop.index, "before": loop.last["form"]})

    loop(look, "right?", until=lambda out: out["approved"], max_iterations=5, delay="1h", collect=True)
    archive(pages)


PUBLISH_BY_NIGHT = """
id: publish_by_night
variables: {least: 1}
inputSchema:
  strict: true
  fields:
    - name: places
      label: Places
      type: array
      required: true
      items: {name: item, label: Item, type: string}
    - {name: day, label: Day, type: string, required: true}
steps:
  - {id: stock, task: reserve, params: {order: {}}}
  - id: choice
    needs: []
    choice:
      - condition: "input.places[0] != ''"
        steps:
          - {id: shelf, needs: [], transform: "${steps.stock.shelf}"}
          - id: one_page
            needs: [shelf]
            map:
              over: "${input.places}"
              maxParallel: 20
              failure: partial
              steps:
                - {id: made, task: publish, params: {place: "${item}"}}
                - id: choice_2
                  needs: []
                  choice:
                    - condition: "steps.made != '' && steps.shelf > 3"
                      steps:
                        - id: tell
                          needs: []
                          task: tell
                          params: {order: {page: "${steps.made}", note: a note, day: "${input.day}"}}
                        - id: gather
                          parallel:
                            failure: settle
                            steps:
                              - {id: copy, needs: [], task: publish, params: {place: "${steps.stock.shelf}"}}
                - {id: shown, needs: [tell, gather], transform: {made: "${steps.made}"}}
  - id: look
    needs: []
    loop:
      maxIterations: 5
      until: last.approved
      delay: 1h
      collect: true
      steps:
        - id: right
          approval: {title: "right?", context: {n: "${loop.index}", before: "${loop.last.form}"}}
  - {id: archive, needs: [], task: archive, params: {places: "${steps.one_page}"}}
"""


@pipeline
def one_place(place: str, after: Any = None) -> Any:
    return publish(place)


@pipeline
def ask(question: str, before: Any) -> Any:
    return approval("Is it right?", context=before)


@pipeline
def publish_all(places: list[str]) -> Any:
    stock = reserve.options(step_id="stock")({})
    done = one_place.map(places, max_parallel=20, failure="partial", after=stock)
    first = one_place.options(retry=Retry(attempts=2), needs=[done], condition=places[0] != "")(places[0])
    right = loop(
        ask.options(step_id="review", continue_on_error=True),
        "right?",
        before=loop.last["form"],
        until=lambda out: out["approved"] & (stock["shelf"] > 3),
        max_iterations=5,
        delay="1h",
        collect=True,
    )
    return {"first": first, "rounds": right}


PUBLISH_ALL = """
id: publish_all
inputSchema:
  strict: true
  fields:
    - name: places
      label: Places
      type: array
      required: true
      items: {name: item, label: Item, type: string}
steps:
  - {id: stock, task: reserve, params: {order: {}}}
  - id: one_place
    needs: []
    pipeline: one_place
    map: {over: "${input.places}", as: place, maxParallel: 20, failure: partial}
    params: {after: "${steps.stock}"}
  - id: one_place_2
    needs: [one_place]
    pipeline: one_place
    params: {place: "${input.places[0]}"}
    condition: "input.places[0] != ''"
    retry: {attempts: 2}
  - id: review
    needs: []
    loop:
      pipeline: ask
      until: "last.approved && steps.stock.shelf > 3"
      maxIterations: 5
      delay: 1h
      collect: true
    params: {question: "right?", before: "${loop.last.form}"}
    continueOnError: true
output: {first: "${steps.one_place_2}", rounds: "${steps.review}"}
"""


@pytest.mark.parametrize(
    ("drawn", "document"),
    [
        (process_order, PROCESS_ORDER),
        (publish_everywhere, PUBLISH),
        (publish_all, PUBLISH_ALL),
        (publish_by_night, PUBLISH_BY_NIGHT),
    ],
)
def test_both_forms_have_the_same_spec(drawn: Any, document: str) -> None:
    spec = parse_spec(yaml.safe_load(document))
    assert drawn.spec.to_json() == spec.to_json()
    assert drawn.spec == replace(spec, steps=drawn.spec.steps)
    assert parse_spec(spec.to_json()) == drawn.spec
