"""`celery -A pipeweave.workers.app` for tools that look at a deployment, such as Flower."""

from pipeweave.orchestrator.messaging import make_celery
from pipeweave.settings import load

app = make_celery(load(), is_worker=True)
