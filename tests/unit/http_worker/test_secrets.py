"""An HTTP worker fills params with secrets that came apart from its input, and shows none of them."""

from __future__ import annotations

from typing import Any

from support.fake_orchestrator import FakeOrchestrator, Serve

from pipeweave import Context, TaskError, task

VALUE = "hunter2-hunter2"
SECRETS: dict[str, Any] = {"secrets": {"DB": VALUE}, "secretParams": {"password": "DB"}}

seen: list[Any] = []


@task
def login(ctx: Context, host: str, password: str) -> dict[str, str]:
    seen.append((host, password, ctx.secret("DB")))
    ctx.log.info("login", extra={"password": password})
    print(f"password={password}")
    ctx.progress(10, f"with {password}")
    return {"url": f"postgresql://{host}:{password}@db"}


@task(retries=0)
def refused(ctx: Context, password: str) -> None:
    raise TaskError(f"no login with {password}", details={"password": password})


@task
async def later(ctx: Context, password: str) -> str:
    return ctx.secret("OTHER")


def test_a_param_is_filled_and_the_report_and_the_log_do_not_show_it(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    seen.clear()
    serve(login)
    orchestrator.dispatch("login", input={"host": "db ${secret.DB}"}, **SECRETS)
    assert orchestrator.report()["output"] == {"url": "postgresql://db ${secret.DB}:***@db"}
    assert seen == [("db ${secret.DB}", VALUE, VALUE)]
    assert all(VALUE.encode() not in each for each in orchestrator.objects.values())


def test_the_report_of_an_error_does_not_show_it(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(refused)
    orchestrator.dispatch("refused", input={}, **SECRETS)
    report = orchestrator.report()
    assert report["error"] == "no login with ***" and report["details"] == {"password": "***"}
    assert VALUE not in str(report)


def test_a_secret_that_the_params_do_not_name_is_not_there(
    orchestrator: FakeOrchestrator, serve: Serve
) -> None:
    serve(later)
    orchestrator.dispatch("later", input={}, **SECRETS)
    assert orchestrator.report()["errorCode"] == "SECRET_DENIED"


def test_members_of_another_type_are_refused(orchestrator: FakeOrchestrator, serve: Serve) -> None:
    serve(login)
    for wrong in ({"secrets": ["DB"]}, {"secrets": {"DB": 1}}, {"secretParams": {"password": None}}):
        status, _ = orchestrator.dispatch("login", input={"host": "h"}, **wrong)
        assert status == 400
