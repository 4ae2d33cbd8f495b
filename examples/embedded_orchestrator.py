"""An orchestrator, a worker and a client in one Python process. It needs an empty database and nothing else:

DATABASE_URL=postgresql://user:password@host:port/database python examples/embedded_orchestrator.py
"""

import os
import secrets

from pipeweave import Client, HttpWorker, Orchestrator, task

PIPELINE = {
    "steps": [
        {"task": "split_text", "params": {"text": "${input.text}"}},
        {"task": "measure_word", "map": {"over": "${steps.split_text}", "as": "word"}},
        {"task": "longest_word", "params": {"measured": "${steps.measure_word}"}},
    ]
}


@task
def split_text(text: str) -> list[str]:
    return text.split()


@task
def measure_word(word: str) -> dict[str, int]:
    return {word: len(word)}


@task
def longest_word(measured: list[dict[str, int]]) -> str:
    letters = {word: number for each in measured for word, number in each.items()}
    return max(letters, key=letters.__getitem__)


def main() -> None:
    # A deployment keeps its secret key: workers share it.
    secret = secrets.token_hex(32)
    orchestrator = Orchestrator(
        database_url=os.environ["DATABASE_URL"],
        secret_key=secret,
        dispatch_networks="loopback",
        poll_interval_ms=100,
    )
    orchestrator.migrate()
    with orchestrator, orchestrator.create_server(port=0) as server:
        token = orchestrator.create_token("example", scopes=["write", "worker"])
        worker = HttpWorker(
            "words",
            server.url,
            secret,
            tasks=[split_text, measure_word, longest_word],
            host="127.0.0.1",
            port=0,
            token=token,
        )
        worker.start()
        try:
            with Client(server.url, token) as client:
                client.put_pipeline("longest-word", PIPELINE)
                run = client.trigger("longest-word", {"text": "one process can orchestrate itself"})
                print(client.wait(run, timeout=60, check=True).output)
        finally:
            worker.stop()


if __name__ == "__main__":
    main()
