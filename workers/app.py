"""The app for `celery -A pipeweave.workers.app status | inspect | flower`: tools that look at the broker.

It finds the broker as every command of PipeWeave does (docs/configuration.md), and needs no database. To run
a worker, use `pipeweave worker`.
"""

from pipeweave.errors import PipeWeaveError
from pipeweave.orchestrator.messaging import make_celery
from pipeweave.settings import connecting, load, take_env_file

try:
    take_env_file()
    app = make_celery(connecting.broker(load()), is_worker=True)
except PipeWeaveError as error:
    # `celery` prints a traceback of 30 lines for every Exception in an app's module.
    raise SystemExit(f"pipeweave: {error.code}: {error.detail}; {error.hint}") from error
