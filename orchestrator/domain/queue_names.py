"""The names of queues.

A service has a queue, `pipeweave.<tenant>.<service>`, and one more for each name that its tasks are given
(`@task(queue="gpu")`): `pipeweave.<tenant>.<service>/gpu`. What requires labels of the worker waits in a
queue for each set of labels that is required: `pipeweave.<tenant>.<service>/gpu+arch=arm+zone=eu`. Three
kinds of queues are special:

  own      `…#<code set>`: consumed by the worker processes of a service that have loaded the same code. A
           task run that reached a worker without its task goes on in the own queue of a worker that has it.
  parking  `…#waiting#<task>`: consumed by nobody, and no message is ever sent to it. A task run whose task
           no worker has loaded waits there as a row (queueing/placement.py).
  dispatch  `pipeweave.<tenant>.!http`, one for each tenant: task runs of all its HTTP services. A worker that
           takes one of them does not call a function, it dispatches to the service.

No tenant, service, task, name of a queue or label contains `/`, `#`, `!`, `+` or `=`, so that no two
queues have one name.
"""

from __future__ import annotations

import functools

from pipeweave.labels import Labels

DEFAULT = "default"
"""How users name the service's own queue."""

# The queue of steps that the engine decides in a pipeline without any task: no worker takes messages from it,
# and whoever would send one there does what it asks for.
NOBODY = "-"

# What the names of own and parking queues contain, and no other name.
APART = "#"
# Before each label in the name of a queue.
LABEL = "+"
_PARKING = "#waiting#"
_DISPATCH = "!http"


def service_queue(tenant: str, service_id: str) -> str:
    """The queue of a service's tasks."""
    # Tenant `a` with service `b.c` and tenant `a.b` with service `c` must not share a queue.
    return f"pipeweave.{tenant.replace('.', '/')}.{service_id}"


def dispatch_queue(tenant: str) -> str:
    """The queue of the task runs of a tenant's HTTP services."""
    return service_queue(tenant, _DISPATCH)


# Asked several times of each task run; a process knows a few queues.
@functools.lru_cache(maxsize=4096)
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


def queue_sql(task_run: str | None = "t", *, task: str = "k", service: str = "s") -> str:
    """SQL: the queue of a task run by what it has chosen, and by its task and service as they are now.

    Args:
        task_run, task, service: the aliases of the rows; a task run of None has chosen nothing.
    """
    names, required = [f"{task}.queue"], f"{task}.requires"
    if task_run is not None:
        names.insert(0, f"{task_run}.queue_name")
        required = required_sql(required, f"{task_run}.requires")
    named = f"{name_sql(f'{service}.queue', *names)} || {labels_sql(required)}"
    # What its choices mean is a matter of workers: a dispatch waits in no queue of its service.
    return f"CASE WHEN {service}.kind = 'http' THEN {service}.queue ELSE {named} END"


def labelled(queue: str, requires: Labels) -> str:
    """The queue of what requires these labels and waited in this queue without them."""
    return queue + "".join(f"{LABEL}{name}={value}" for name, value in sorted(requires.items()))


def without_labels(queue: str) -> str:
    """The queue of what requires nothing and would wait here else."""
    return plain(queue).partition(LABEL)[0]


def required_in(queue: str) -> dict[str, str]:
    """The labels that a worker must have to consume this queue, by its name."""
    pairs = (each.partition("=") for each in plain(queue).split(LABEL)[1:])
    return {name: value for name, _, value in pairs}


def labels_sql(requires: str) -> str:
    """SQL: what labels add to the name of a queue, as `labelled`; nothing for none.

    Args:
        requires: SQL of the labels, a jsonb object.
    """
    pairs = f"'{LABEL}' || l.key || '=' || l.value"
    return f"""coalesce((SELECT string_agg({pairs}, '' ORDER BY l.key COLLATE "C")
        FROM jsonb_each_text({requires}) AS l), '')"""


def required_sql(of_task: str, chosen: str) -> str:
    """SQL: the labels that a task run requires, NULL for none. Where its task and its step, or its run, name
    one label, that of the step or the run counts.
    """
    return f"coalesce({of_task} || {chosen}, {of_task}, {chosen})"


def has_labels_sql(queue: str) -> str:
    """SQL: whether what waits in this queue requires labels."""
    return f"position('{LABEL}' in {queue}) > 0"


def own_queue(queue: str, code_set: str) -> str:
    """The queue of the worker processes of a service that have loaded the same code and have the same labels.

    Args:
        queue: the service's queue.
        code_set: a hash of the tasks and their code, of the queues that are served, and of the labels.
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
