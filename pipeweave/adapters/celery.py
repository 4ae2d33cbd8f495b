"""The adapter `celery`: publishes tasks of the user's own Celery application, and waits without a worker.

The application is the one that the code of the worker has made (`--app shop.tasks`); it is never PipeWeave's
own. Its workers report the result of a `call` to the attempt's callback URL by `link` and `link_error`, once
`celery_reports.install` has been called there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pipeweave.adapters.celery_reports import REPORT, REPORT_ERROR
from pipeweave.authoring import Context, Suspend
from pipeweave.authoring.adapter import action, adapter
from pipeweave.errors import TaskError

if TYPE_CHECKING:
    from celery import Celery

NO_APP = "CELERY_APP_MISSING"


@adapter("celery")
class CeleryAdapter:
    """The user's own Celery workers."""

    @action
    def send(
        self,
        ctx: Context,
        task: str,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        queue: str | None = None,
    ) -> dict[str, Any]:
        """Publish a Celery task and go on; the output is {taskId}. Nobody waits for its result.

        Args:
            task: the name of the Celery task.
            queue: by default where the application routes it.
        """
        return {"taskId": _publish(ctx, task, args, kwargs, queue)}

    @action
    def call(
        self,
        ctx: Context,
        task: str,
        args: list[Any] | None = None,
        kwargs: dict[str, Any] | None = None,
        queue: str | None = None,
        wait: float | str | None = None,
    ) -> Suspend:
        """Publish a Celery task, and wait for its result, which is the output. No worker waits meanwhile.

        Args:
            task, args, kwargs, queue: as of `celery.send`.
            wait: how long the result may take, such as `2h`; 7 days by default. A Celery worker that is
                killed while another process of it lives reports that; of one that is gone as a whole, only
                this time limit tells.
        """
        suspend = Suspend.callback(timeout=wait)
        _publish(ctx, task, args, kwargs, queue, ctx.callback_url)
        return suspend


def _publish(
    ctx: Context,
    name: str,
    args: list[Any] | None,
    kwargs: dict[str, Any] | None,
    queue: str | None,
    callback_url: str | None = None,
) -> str:
    """Publish a Celery task; returns its id. An attempt has one, which the result backend keeps apart from
    those of the other attempts.
    """
    app = _users_app()
    task_id = f"{ctx.task_run_id}.{ctx.attempt}"
    options: dict[str, Any] = {"task_id": task_id}
    if queue is not None:
        options["queue"] = queue
    if callback_url is not None:
        options |= {"link": _report(app, REPORT, callback_url)}
        options |= {"link_error": _report(app, REPORT_ERROR, callback_url)}
    # The options of a task that is known here, such as its serializer, count as they do with `delay`.
    if (known := app.tasks.get(name)) is not None:
        known.apply_async(tuple(args or ()), kwargs or {}, **options)
    else:
        app.send_task(name, args or [], kwargs or {}, **options)
    return task_id


def _report(app: Celery, name: str, callback_url: str) -> Any:
    # Who has the URL may report: the log of a Celery worker and Flower show these texts in its place.
    hidden = {"argsrepr": "(…)", "kwargsrepr": "{…}"}
    return app.signature(name, kwargs={"url": callback_url}, options=hidden)


def _users_app() -> Celery:
    """The application of the code that this worker has loaded.

    Raises:
        TaskError: it has made none. Celery would make one that publishes to nowhere.
    """
    from celery import _state

    state: Any = _state
    app: Celery | None = state._tls.current_app or state.default_app
    if app is None:
        raise TaskError(
            "this worker has loaded no Celery application; start it with the code that makes yours: "
            "pipeweave worker --app shop.celery --app pipeweave.adapters",
            code=NO_APP,
            retryable=False,
        )
    return app
