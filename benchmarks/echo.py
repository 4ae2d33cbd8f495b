"""`python -m benchmarks.echo`: send each message back until this process is told to end."""

from __future__ import annotations

import redis

from pipeweave.settings import environment

THERE, BACK = "floor:there", "floor:back"


def main() -> None:
    """Wait at the broker's list; what comes goes to the other list."""
    broker = redis.Redis.from_url(environment()["BROKER_URL"])
    while True:
        # Without a time-out it gives a message each time.
        if (taken := broker.blpop([THERE], timeout=0)) is not None:
            broker.rpush(BACK, taken[1])


if __name__ == "__main__":
    main()
