"""Store, read and pause triggers over HTTP, and give webhooks new secrets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipeweave.client.models import Document, checked_id, document_of, without_none
from pipeweave.client.paging import Methods


def _path(trigger_id: str, verb: str = "") -> str:
    return f"/api/triggers/{checked_id(trigger_id)}{verb}"


class TriggerMethods(Methods):
    """The methods of the client about triggers, which start runs when something happens."""

    def triggers(self, pipeline_id: str | None = None, kind: str | None = None) -> list[Document]:
        """List all triggers, or those of one pipeline or one kind."""
        return list(self._all("/api/triggers", "triggers", {"pipelineId": pipeline_id, "kind": kind}))

    def read_trigger(self, trigger_id: str) -> Document:
        """Read a trigger with `lastFires`.

        Raises:
            NotFound: there is no such trigger.
        """
        return document_of(self._http.get(_path(trigger_id)))

    def put_trigger(self, trigger_id: str, trigger: Mapping[str, Any]) -> Document:
        """Store a trigger, or replace all of it but its secret: {kind, pipelineId, filter, input, …}.

        Returns:
            The trigger; `secret` is the one that was made, if so, and can never be read again.

        Raises:
            InvalidInput: one FieldError per mistake. Nothing is stored. NotFound: there is no such pipeline.
        """
        return document_of(self._http.send("PUT", _path(trigger_id), dict(trigger)))

    def delete_trigger(self, trigger_id: str) -> Document:
        """Delete a trigger; its runs go on.

        Raises:
            NotFound: there is no such trigger.
        """
        return document_of(self._http.send("DELETE", _path(trigger_id)))

    def pause_trigger(self, trigger_id: str) -> Document:
        """Let a trigger start nothing until it is resumed; return it.

        Raises:
            NotFound: there is no such trigger.
        """
        return document_of(self._http.send("POST", _path(trigger_id, "/pause"), {}))

    def resume_trigger(self, trigger_id: str) -> Document:
        """End a pause; return the trigger. What happened during the pause is not made up for.

        Raises:
            NotFound: there is no such trigger.
        """
        return document_of(self._http.send("POST", _path(trigger_id, "/resume"), {}))

    def rotate_trigger_secret(
        self, trigger_id: str, secret: str | None = None, *, overlap_seconds: int | None = None
    ) -> Document:
        """Give a webhook a new secret.

        Args:
            trigger_id: the webhook.
            secret: the new secret; without one, the answer has the one that was made, this once.
            overlap_seconds: how long the secret before it is valid, too; a day without it.

        Raises:
            NotFound: there is no such webhook.
        """
        body = without_none(secret=secret, overlapSeconds=overlap_seconds)
        return document_of(self._http.send("POST", _path(trigger_id, "/rotate"), body))
