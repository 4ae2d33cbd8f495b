"""The names of queues.

A service has a queue, `pipeweave.<tenant>.<service>`, and one more for each name that its tasks are given
(`@task(queue="gpu")`): `pipeweave.<tenant>.<service>/gpu`. Three kinds of queues are special:

  own      `…#<code set>`: consumed by the worker processes of a service that have loaded the same code. A
           task run that reached a worker without its task goes on in the own queue of a worker that has it.
  parking  `…#waiting#<task>`: consumed by nobody, and no message is ever sent to it. A task run whose task
           no worker has loaded waits there as a row (queueing/placement.py).
  dispatch  `pipeweave.<tenant>.!http`, one for each tenant: task runs of all its HTTP services. A worker that
           takes one of them does not call a function, it dispatches to the service.

No tenant, service, task or name of a queue contains `/`, `#` or `!`, so that no two
queues have one name.
"""

from __future__ import annotations

DEFAULT = "default"
"""How users name the service's own queue."""

# The queue of steps that the engine decides in a pipeline without any task: no worker takes messages from it,
# and whoever would send one there does what it asks for.
NOBODY = "-"

# What the names of own and parking queues contain, and no other name.
APART = "#"
_PARKING = "#waiting#"
_DISPATCH = "!http"


def service_queue(tenant: str, service_id: str) -> str:
    """The queue of a service's tasks."""
    # Tenant `a` with service `b.c` and tenant `a.b` with service `c` must not share a queue.
    return f"pipeweave.{tenant.replace('.', '/')}.{service_id}"


def dispatch_queue(tenant: str) -> str:
    """The queue of the task runs of a tenant's HTTP services."""
    return service_queue(tenant, _DISPATCH)


def is_dispatch(queue: str) -> bool:
    """Whether the task runs of this queue are dispatched to an HTTP service."""
    return plain(queue).endswith(f".{_DISPATCH}")


def is_dispatch_sql(queue: str) -> str:
    """SQL: as `is_dispatch`."""
    return f"split_part({queue}, '{APART}', 1) LIKE '%.{_DISPATCH}'"


def named_queue(queue: str, name: str | None) -> str:
    """The queue of this name of a service.

    Args:
        queue: the service's queue.
        name: as users write it; None or DEFAULT for the service's queue itself.
    """
    return queue if name in (None, DEFAULT) else f"{queue}/{name}"


def name_sql(queue: str, *names: str) -> str:
    """SQL: the queue of a service that has the first of these names that is not null; see `named_queue`.

    Args:
        queue, names: SQL of the service's queue, and of the names as users write them.
    """
    return f"{queue} || coalesce('/' || nullif(coalesce({', '.join(names)}), '{DEFAULT}'), '')"


def own_queue(queue: str, code_set: str) -> str:
    """The queue of the worker processes of a service that have loaded the same code.

    Args:
        queue: the service's queue.
        code_set: a hash of the tasks and their code, and of the queues that are served.
    """
    return f"{queue}{APART}{code_set}"


def plain(queue: str) -> str:
    """The queue that a task run had before it was placed apart."""
    return queue.partition(APART)[0]


def is_parking(queue: str) -> bool:
    """Whether task runs wait here for a worker that has their task. No message is sent to such a queue."""
    return _PARKING in queue


def parking_sql(queue: str, task: str) -> str:
    """SQL: the parking queue of a task.

    Args:
        queue, task: SQL of the present queue, and of the task's id.
    """
    return f"split_part({queue}, '{APART}', 1) || '{_PARKING}' || {task}"


def is_apart_sql(queue: str) -> str:
    """SQL: whether this is an own queue or a parking queue."""
    return f"position('{APART}' in {queue}) > 0"


def is_parking_sql(queue: str) -> str:
    """SQL: as `is_parking`."""
    return f"position('{_PARKING}' in {queue}) > 0"
