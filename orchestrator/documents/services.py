"""Documents of services."""

from __future__ import annotations

from typing import Literal

from pydantic import AwareDatetime, Field

from pipeweave.orchestrator.documents.base import AnswerModel, Paged


class Service(AnswerModel):
    """A registered worker program."""

    id: str
    kind: Literal["python", "http"]
    version: str
    base_url: str | None
    queue: str = Field(description="The Celery queue of its tasks.")
    status: Literal["active", "inactive", "disconnected"]
    registered_at: AwareDatetime
    last_heartbeat: AwareDatetime
    last_seen: AwareDatetime = Field(
        description="When it last registered or answered, or a worker was alive."
    )
    task_count: int
    worker_count: int
    instance_count: int = Field(description="Processes of an HTTP service that have registered.")
    ready_instances: int = Field(description="How many of them take dispatches.")
    storage_access: Literal["token", "urls"] = Field(
        description="How its dispatches say where values are: in an encrypted token, or as signed URLs."
    )
    token_format: Literal["sdk", "pbkdf2"]
    base_url_override: str | None = Field(
        description="The URL that replaces what instances register; `peer`: the address that they register"
        " from; null: what they register."
    )
    disabled_at: AwareDatetime | None = Field(description="When it was switched off; null: it is not.")


class Instance(AnswerModel):
    """A process of an HTTP service."""

    base_url: str = Field(description="Where dispatches to it go.")
    registered_url: str = Field(description="The URL that it registered.")
    version: str
    registered_at: AwareDatetime
    last_seen_at: AwareDatetime = Field(
        description="When it last registered, took a dispatch after it was set aside, or answered a probe."
    )
    set_aside_at: AwareDatetime | None = Field(
        description="Since when it takes no dispatches, because it refused one or did not answer; null: it"
        " takes them."
    )
    probe_at: AwareDatetime | None = Field(description="When it is asked next, while it is set aside.")
    refusals: int = Field(description="How often in a row it refused or did not answer.")
    last_error: str | None
    tasks: list[str] = Field(description="The tasks that it named when it registered.")


class ServiceDetail(Service):
    """A service with its instances."""

    instances: list[Instance] = Field(
        description="The first 200 instances of an HTTP service: those that take dispatches come first."
    )


class ServiceList(Paged):
    """Services in the order of their ids."""

    services: list[Service]


class ServiceAnswer(AnswerModel):
    """One service."""

    service: ServiceDetail
