"""Send what is in the outbox of another database to PipeWeave, each row once: python outbox_relay.py.

DATABASE_URL leads to the database with the table `outbox` (docs/enqueue.md).
PIPEWEAVE_ORCHESTRATOR_URL and PIPEWEAVE_API_TOKEN lead to PipeWeave.
"""

import os
import time
from typing import Any

import psycopg2

from pipeweave import Client
from pipeweave.errors import PipeWeaveError, Unavailable

# Several relays take different rows.
TAKE = """SELECT id, pipeline_id, input FROM outbox WHERE error IS NULL
    ORDER BY id LIMIT 100 FOR UPDATE SKIP LOCKED"""


def relay(connection: Any, client: Client) -> int:
    """Start the run of each row, and delete the row. What dies in between comes again: the same run."""
    with connection, connection.cursor() as cursor:
        cursor.execute(TAKE)
        rows = cursor.fetchall()
        for id, pipeline_id, input in rows:
            try:
                client.trigger(pipeline_id, input, run_token=f"outbox:{id}")
                cursor.execute("DELETE FROM outbox WHERE id = %s", (id,))
            except Unavailable:
                raise  # the next call tries again
            except PipeWeaveError as error:  # an unknown pipeline, a wrong input: somebody has to look at it
                cursor.execute("UPDATE outbox SET error = %s WHERE id = %s", (error.detail, id))
        return len(rows)


if __name__ == "__main__":
    outbox, pipeweave = psycopg2.connect(os.environ["DATABASE_URL"]), Client()
    while True:
        try:
            pause = 0.0 if relay(outbox, pipeweave) else 0.2
        except Unavailable:
            pause = 1.0
        time.sleep(pause)
