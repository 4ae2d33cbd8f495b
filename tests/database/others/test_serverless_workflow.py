"""What examples of Serverless Workflow do, said in documents of ours, comes to the same (without events)."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from support.stubbed_runs import StubbedRuns, documents_of

from pipeweave import TaskError
from pipeweave.errors import InputValidationFailed

DOCUMENTS = documents_of("serverless-workflow")
PET = {"id": 7, "name": "Rex", "status": "available"}


def begin(runs: StubbedRuns, id: str, input: Any = None) -> Any:
    """Store a document of the page, and begin a run of it."""
    runs.put(DOCUMENTS[id])
    return runs.begin(id, input)


def outcome(runs: StubbedRuns, id: str, input: Any = None) -> tuple[str, Any]:
    return runs.outcome(begin(runs, id, input))


def change_pet(pet: Any, status: str) -> dict[str, Any]:
    return pet | {"status": status}


def serve_pets(runs: StubbedRuns, *codes: str) -> None:
    """A shop of pets, which fails with these codes before it answers."""
    left = list(codes)

    def get_pet(pet_id: int) -> dict[str, Any]:
        if left:
            raise TaskError("the shop says no", code=left.pop(0))
        return PET | {"id": pet_id}

    runs.serve(get_pet=get_pet, change_pet=change_pet, publish=lambda type, data: type)


# --- one after the other ----------------------------------------------------------------------------------


def test_do_single_gets_the_pet_that_the_input_names(runs: StubbedRuns) -> None:
    serve_pets(runs)
    assert outcome(runs, "do-single", {"petId": 7}) == ("completed", PET)
    assert runs.calls("get_pet") == [{"pet_id": 7}]


def test_do_multiple_hands_the_pet_on_and_buys_it(runs: StubbedRuns) -> None:
    serve_pets(runs)
    assert outcome(runs, "do-multiple", {"petId": 7}) == ("completed", PET | {"status": "sold"})
    assert [task for task, _ in runs.called] == ["get_pet", "change_pet"]


def test_star_wars_homeworld_asks_the_address_that_the_first_answer_has(runs: StubbedRuns) -> None:
    runs.serve(
        get_character=lambda number: {"name": "Luke", "homeworld": f"https://swapi.example/planets/{number}"},
        get_resource=lambda url: {"name": "Tatooine", "url": url},
    )
    planet = {"name": "Tatooine", "url": "https://swapi.example/planets/1"}
    assert outcome(runs, "star-wars-homeworld", {"id": 1}) == ("completed", planet)


def test_star_wars_homeworld_refuses_an_id_below_one_before_anything_runs(runs: StubbedRuns) -> None:
    runs.serve(get_character=lambda number: None, get_resource=lambda url: None)
    runs.put(DOCUMENTS["star-wars-homeworld"])
    with pytest.raises(InputValidationFailed, match="id"):
        runs.begin("star-wars-homeworld", {"id": 0})
    assert runs.called == []


# --- conditions and choices -------------------------------------------------------------------------------


def test_conditional_task_refuses_minors_and_takes_the_bets_of_others(runs: StubbedRuns) -> None:
    runs.serve(place_bet=lambda customer, bet: {"placed": bet})
    grown_up = {"customer": {"name": "Ada", "age": 36}, "bet": 10}
    assert outcome(runs, "conditional-task", grown_up) == ("completed", {"placed": 10})
    minor = runs.begin("conditional-task", {"customer": {"name": "Tom", "age": 12}, "bet": 10})
    assert runs.outcome(minor)[0] == "failed"
    assert runs.failure(minor, "refuse_minors") == ("ACCESS_FORBIDDEN", "Tom is too young")
    assert len(runs.calls("place_bet")) == 1


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("electronic", {"validate": True, "status": "fulfilled"}),
        ("physical", {"inventory": "clear", "items": 1, "address": "1 Main Street"}),
        ("edible", {"log": "warn", "message": "no such kind of order"}),
    ],
)
def test_switch_then_string_takes_one_of_three_branches(runs: StubbedRuns, kind: str, value: Any) -> None:
    assert outcome(runs, "switch-then-string", {"orderType": kind}) == ("completed", value)


# --- values -----------------------------------------------------------------------------------------------


def test_set_keeps_the_event_that_began_the_run(runs: StubbedRuns) -> None:
    event = {"type": "trigger", "data": {"at": 3}}
    assert outcome(runs, "set", {"events": [event]}) == ("completed", {"startEvent": event})


def test_set_expression_makes_the_whole_value_by_an_expression(runs: StubbedRuns) -> None:
    event = {"type": "trigger", "data": {"at": 3}}
    assert outcome(runs, "set-expression", {"events": [event]}) == ("completed", event)


# --- errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("id", "message"),
    [
        ("raise-inline", "raise-inline is being worked on, and cannot run yet"),
        ("raise-reusable", "raise-reusable: this is being worked on, and cannot run yet"),
    ],
)
def test_raise_ends_the_run_with_an_error_whose_message_is_made_of_values(
    runs: StubbedRuns, id: str, message: str
) -> None:
    run_id = begin(runs, id)
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "not_ready") == ("NOT_IMPLEMENTED", message)


def test_try_catch_passes_over_a_missing_pet(runs: StubbedRuns) -> None:
    serve_pets(runs, "HTTP_404")
    assert outcome(runs, "try-catch", {"petId": 7}) == ("completed", None)
    assert outcome(runs, "try-catch", {"petId": 7}) == ("completed", PET)


def test_try_catch_leaves_other_errors_alone(runs: StubbedRuns) -> None:
    serve_pets(runs, "HTTP_500")
    run_id = begin(runs, "try-catch", {"petId": 7})
    assert runs.outcome(run_id)[0] == "failed"
    assert runs.failure(run_id, "get_pet") == ("HTTP_500", "the shop says no")


@pytest.mark.parametrize("id", ["try-catch-retry-inline", "try-catch-retry-reusable"])
def test_try_catch_retry_asks_again_after_three_seconds_and_then_after_twice_as_long(
    runs: StubbedRuns, id: str
) -> None:
    serve_pets(runs, "HTTP_503", "HTTP_503")
    first = datetime.now(UTC)
    run_id = begin(runs, id, {"petId": 7})
    assert runs.retried_after(run_id, "get_pet", first, 3)
    second = datetime.now(UTC)
    runs.wait(hours=1, most=1)
    assert runs.retried_after(run_id, "get_pet", second, 6)
    runs.wait(hours=1, most=1)
    assert runs.outcome(run_id)[0] == "completed"
    assert len(runs.calls("get_pet")) == 3


def test_try_catch_retry_ends_after_five_attempts_and_asks_no_second_time_after_another_error(
    runs: StubbedRuns,
) -> None:
    serve_pets(runs, *["HTTP_503"] * 5, "HTTP_400")
    busy = begin(runs, "try-catch-retry-inline", {"petId": 7})
    for _ in range(6):
        runs.wait(hours=1)
    assert runs.outcome(busy)[0] == "failed"
    assert len(runs.calls("get_pet")) == 5
    wrong = runs.begin("try-catch-retry-inline", {"petId": 7})
    assert runs.outcome(wrong)[0] == "failed"
    assert runs.failure(wrong, "get_pet")[0] == "HTTP_400"


def test_try_catch_then_tells_support_of_a_missing_pet_and_does_not_buy_it(runs: StubbedRuns) -> None:
    serve_pets(runs, "HTTP_404")
    run_id = begin(runs, "try-catch-then", {"petId": 7})
    assert runs.outcome(run_id)[0] == "completed"
    [told] = runs.calls("publish")
    assert (told["type"], told["data"]["code"]) == ("pet-not-found", "HTTP_404")
    assert runs.step(run_id, "buy_pet") == "skipped"
    runs.begin("try-catch-then", {"petId": 7})
    assert len(runs.calls("publish")) == 1
    assert runs.calls("change_pet") == [{"pet": PET, "status": "sold"}]


# --- time, other pipelines, branches ----------------------------------------------------------------------


@pytest.mark.parametrize("id", ["wait-duration-inline", "wait-duration-iso8601"])
def test_wait_duration_ends_after_thirty_seconds(runs: StubbedRuns, id: str) -> None:
    run_id = begin(runs, id)
    runs.wait(seconds=29)
    assert runs.step(run_id, "wait") == "waiting"
    runs.wait(seconds=2)
    assert runs.outcome(run_id) == ("completed", None)


def test_run_subflow_hands_the_user_to_another_pipeline_and_takes_its_output(runs: StubbedRuns) -> None:
    runs.serve(store_customer=lambda customer: {"number": 17, **customer})
    runs.put({"id": "register-customer", "steps": [{"id": "store", "task": "store_customer"}]})
    assert outcome(runs, "run-subflow", {"user": {"name": "Ada"}}) == (
        "completed",
        {"number": 17, "name": "Ada"},
    )


def test_fork_goes_on_with_the_branch_that_is_done_first(runs: StubbedRuns) -> None:
    """The other one ends, too: nobody stops a call that is under way."""
    runs.serve(alert=lambda who, room: f"the {who} comes to room {room}")
    run_id = begin(runs, "fork", {"room": {"number": 3}})
    assert runs.outcome(run_id) == ("completed", "the doctor comes to room 3")
    assert [each["who"] for each in runs.calls("alert")] == ["doctor", "nurse"]


def test_for_goes_through_the_pets_one_after_the_other(runs: StubbedRuns) -> None:
    pets = [{"id": 1}, {"id": 2}, {"id": 3}]
    run_id = begin(runs, "for", {"pets": pets, "vet": "Dr. Who"})
    for number in (1, 2, 3):
        assert len(runs.children(run_id)) == number
        runs.signal(run_id, f"checkup:{number}", "fit")
    status, checkups = runs.outcome(run_id)
    assert status == "completed"
    assert checkups == [{"id": each, "result": "fit"} for each in (1, 2, 3)]


def test_for_waits_for_no_checkup_while_there_is_no_vet(runs: StubbedRuns) -> None:
    assert outcome(runs, "for", {"pets": [{"id": 1}], "vet": None}) == (
        "completed",
        [{"id": 1, "result": None}],
    )
    assert runs.outcome(runs.begin("for", {"pets": [], "vet": "Dr. Who"})) == ("completed", [])
