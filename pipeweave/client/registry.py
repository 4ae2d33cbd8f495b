"""Read and store pipelines over HTTP, and read what services and workers have registered."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


class RegistryMethods(Methods):
    """The methods of the client about pipelines, services and tasks."""

    def pipelines(self) -> list[Document]:
        """List all pipelines."""
        return list(self._all("/api/pipelines", "pipelines", {}))

    def pipeline(self, pipeline_id: str, version: int | None = None) -> Document:
        """Read a pipeline: its current version, or the given version."""
        path = f"/api/pipelines/{checked_id(pipeline_id)}"
        answer = document_of(self._http.get(path, {"version": version}))
        return document_of(answer["pipeline"])

    def put_pipeline(self, pipeline_id: str, spec: Mapping[str, Any]) -> Document:
        """Store a spec as the next version; a spec equal to the newest version changes nothing.

        Raises:
            InvalidSpec: the spec is invalid; one FieldError per mistake. Nothing is stored.
        """
        return document_of(self._http.send("PUT", f"/api/pipelines/{checked_id(pipeline_id)}", dict(spec)))

    def check_pipeline(self, document: Mapping[str, Any]) -> Document:
        """Check a document without storing it: {valid, errors, warnings, spec, specHash}.

        Args:
            document: the pipeline; `id` may be absent.
        """
        return document_of(self._http.send("POST", "/api/pipelines/validate", dict(document)))

    def evaluate(
        self,
        expression: str,
        context: Mapping[str, Any] | None = None,
        *,
        run_id: str | None = None,
        step_id: str | None = None,
    ) -> Document:
        """Evaluate an expression: {value, type, references, work, error}.

        Args:
            expression: as in a condition.
            context: values by what paths begin with, such as `{"input": {"total": 5}}`.
            run_id: the run whose values are taken, instead of a context.
            step_id: a step of the run; only the steps before it have values.

        Raises:
            InvalidInput: it is no expression.
        """
        body = without_none(
            expression=expression,
            context=None if context is None else dict(context),
            runId=run_id,
            stepId=step_id,
        )
        return document_of(self._http.send("POST", "/api/expressions/evaluate", body))

    def versions(self, pipeline_id: str) -> list[Document]:
        """List a pipeline's versions, newest first."""
        return list(self._all(f"/api/pipelines/{checked_id(pipeline_id)}/versions", "versions", {}))

    def promote_pipeline(
        self,
        pipeline_id: str,
        version: int | None,
        *,
        expected_version: int | None = None,
        reason: str | None = None,
    ) -> Document:
        """Make a version the current one, which triggers take: {version, latestVersion, previousVersion, …}.

        Args:
            pipeline_id: the pipeline.
            version: None follows the newest version from now on.
            expected_version: nothing happens if another one is current by now; None: whichever it is.
            reason: for the audit.

        Raises:
            NotFound: there is no such pipeline or version.
            Conflict: another version is current than the expected one, or a task is not registered.
        """
        body = {"version": version, **without_none(expectedVersion=expected_version, reason=reason)}
        return document_of(self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/promote", body))

    def rollback_pipeline(
        self, pipeline_id: str, *, expected_version: int | None = None, reason: str | None = None
    ) -> Document:
        """Promote the version that was current before; see `promote_pipeline`.

        Raises:
            NotFound: there is no such pipeline.
            Conflict: there is no version before, or another one is current than the expected one.
        """
        body = without_none(expectedVersion=expected_version, reason=reason)
        return document_of(
            self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/rollback", body)
        )

    def graph(
        self,
        pipeline_id: str,
        version: int,
        *,
        view: str | None = None,
        layout: bool = True,
        body: str | None = None,
    ) -> Document:
        """Read the graph of a version: its boxes and links, and with `layout` where they lie.

        Args:
            pipeline_id: the pipeline.
            version: its version.
            view: `all` steps or their `pattern`; None: what fits its size.
            layout: False leaves the places out.
            body: a body of it, such as `files.map`; None: the whole pipeline.
        """
        path = f"/api/pipelines/{checked_id(pipeline_id)}/versions/{version}/graph"
        query = {"view": view, "layout": None if layout else "false", "body": body}
        return document_of(self._http.get(path, query))

    def draw_graph(
        self,
        pipeline_id: str,
        version: int,
        to: Path,
        *,
        view: str | None = None,
        direction: str | None = None,
        body: str | None = None,
    ) -> int:
        """Write the graph of a version into an SVG file; gives its size in bytes.

        Args:
            pipeline_id: the pipeline.
            version: its version.
            to: the file.
            view: `all` steps or their `pattern`; None: what fits its size.
            direction: `right`, or from the top `down`; None: right.
            body: a body of it, such as `files.map`; None: the whole pipeline.
        """
        path = f"/api/pipelines/{checked_id(pipeline_id)}/versions/{version}/graph.svg"
        return self._http.download(path, {"view": view, "direction": direction, "body": body}, to)

    def dry_run(self, pipeline_id: str, input: Any = None, spec: Mapping[str, Any] | None = None) -> Document:
        """Plan a run without starting it: {valid, errors, warnings, executionPlan}.

        Args:
            pipeline_id: the pipeline.
            input: an input to check against the entry tasks' schemas; None checks no input.
            spec: plan this document instead of the stored version.
        """
        body = without_none(input=input, spec=None if spec is None else dict(spec))
        return document_of(self._http.send("POST", f"/api/pipelines/{checked_id(pipeline_id)}/dry-run", body))

    def services(self) -> list[Document]:
        """List all services that ever registered."""
        return list(self._all("/api/services", "services", {}))

    def service(self, service_id: str) -> Document:
        """Read a service with its instances.

        Raises:
            NotFound: there is no such service.
        """
        answer = document_of(self._http.get(f"/api/services/{checked_id(service_id)}"))
        return document_of(answer["service"])

    def change_service(
        self, service_id: str, *, base_url: str | None = None, is_disabled: bool | None = None
    ) -> Document:
        """Change where dispatches to an HTTP service go, or switch it off; what is None stays as it is.

        Args:
            service_id: the service.
            base_url: a URL; `peer` for the address that its instances register from, or `registered` for the
                URL that they register.
            is_disabled: whether nothing is dispatched to it.

        Returns:
            The service, as `service` reads it.

        Raises:
            NotFound: there is no such service. Conflict: it is not an HTTP service.
            TargetRefused: the URL is outside the networks that are allowed.
        """
        body = without_none(baseUrl=base_url, isDisabled=is_disabled)
        path = f"/api/services/{checked_id(service_id)}/settings"
        return document_of(document_of(self._http.send("PUT", path, body))["service"])

    def tasks(self, service_id: str | None = None) -> list[Document]:
        """List all tasks, or the tasks of one service."""
        path = "/api/tasks" if service_id is None else f"/api/services/{checked_id(service_id)}/tasks"
        return list(self._all(path, "tasks", {}))

    def task(self, task_id: str) -> Document:
        """Read a task.

        Raises:
            NotFound: there is no such task.
        """
        return document_of(document_of(self._http.get(f"/api/tasks/{checked_id(task_id)}"))["task"])

    def remove_task(self, task_id: str, reason: str | None = None) -> Document:
        """Remove a task that no live worker has; its task runs that have not started are cancelled.

        Raises:
            NotFound: there is no such task. Conflict: a live worker has it.
        """
        body = without_none(reason=reason)
        return document_of(self._http.send("POST", f"/api/tasks/{checked_id(task_id)}/remove", body))

    def deploys(self) -> list[Document]:
        """List which live worker processes have which tasks in which code versions."""
        return list(self._all("/api/deploys", "deploys", {}))
