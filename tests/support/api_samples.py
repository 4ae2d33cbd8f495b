"""What the tests of the API store before they ask."""

from __future__ import annotations

from pipeweave.orchestrator.registry.registration import Registration, TaskRegistration

TENANT, OTHER_TENANT = "default", "neighbour"
MAIL_SCHEMA = {"fields": [{"name": "to", "type": "email", "label": "To", "required": True}]}
SERVICE = Registration(
    "files",
    "1.0.0",
    tasks=[
        TaskRegistration("list_files", "a" * 64, allowed_next=["count"]),
        TaskRegistration("count", "b" * 64),
        TaskRegistration("report", "c" * 64, description="sums it up"),
        TaskRegistration(
            "send-mail", "d" * 64, input_schema=MAIL_SCHEMA, retry_on=["BUSY"], rate_limit="100/m"
        ),
    ],
)
SPEC = {
    "timeout": "2h",
    "idleTimeout": 900,
    "steps": [
        {"task": "list_files"},
        {"task": "count", "map": {"over": "${steps.list_files}"}},
        {"task": "report", "params": {"rows": "${steps.count}"}},
    ],
}
