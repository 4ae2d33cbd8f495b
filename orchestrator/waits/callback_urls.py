"""Makes the URLs by which the results of suspended calls come, and reads the tokens that they end with."""

from __future__ import annotations

from datetime import datetime, timedelta

from pipeweave import callback_tokens
from pipeweave.callback_tokens import Callback
from pipeweave.errors import FieldError, InvalidSetting, NotFound
from pipeweave.orchestrator.domain.run import RunHeader
from pipeweave.orchestrator.domain.task_run import TaskRun
from pipeweave.settings import Settings
from pipeweave.spec import NO_ASYNC_DEFAULTS


def path_of(settings: Settings, run: RunHeader, task_run: TaskRun, now: datetime) -> str:
    """Where the result of an attempt is reported, below the URL of the API.

    Its token lives as long as the step lets a callback take (`async.timeout`), from now on.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    defaults = run.async_defaults(task_run.step_id) or NO_ASYNC_DEFAULTS
    expires_at = now + timedelta(milliseconds=defaults.callback_ms)
    token = callback_tokens.make(_secret(settings), task_run.id, task_run.attempt, expires_at)
    return f"{callback_tokens.PATH}{token}"


def url_of(settings: Settings, run: RunHeader, task_run: TaskRun, now: datetime) -> str:
    """As `path_of`, the whole URL.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY or PIPEWEAVE_ORCHESTRATOR_URL is not set.
    """
    if settings.orchestrator_url is None:
        raise _missing("PIPEWEAVE_ORCHESTRATOR_URL", "set it to the URL at which others reach the API")
    return f"{settings.orchestrator_url.rstrip('/')}{path_of(settings, run, task_run, now)}"


def url_for_worker(settings: Settings, run: RunHeader, task_run: TaskRun, now: datetime) -> str:
    """As `url_of`; the path alone where the URL of the API is not known: workers know theirs.

    Raises:
        InvalidSetting: PIPEWEAVE_SECRET_KEY is not set.
    """
    is_known = settings.orchestrator_url is not None
    return (url_of if is_known else path_of)(settings, run, task_run, now)


def read(settings: Settings, token: str) -> Callback:
    """What a token names.

    Raises:
        NotFound: this deployment has not made it.
    """
    named = None if settings.secret_key is None else callback_tokens.read(settings.secret_key, token)
    if named is None:
        raise NotFound("there is no such callback")
    return named


def _secret(settings: Settings) -> str:
    if settings.secret_key is None:
        raise _missing(
            "PIPEWEAVE_SECRET_KEY", "set it in every process, e.g. to the output of `openssl rand -hex 32`"
        )
    return settings.secret_key


def _missing(name: str, hint: str) -> InvalidSetting:
    fault = FieldError(name, "is required for callback URLs", "required")
    return InvalidSetting(f"{name} is not set, and callback URLs need it", errors=[fault], hint=hint)
