"""An S3-compatible store for tests: a real HTTP server in a process of its own."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3

from pipeweave.up.ports import free_port
from support.servers import wait_until

STOP_DEADLINE_S = 60.0

_names = itertools.count(1)


@contextmanager
def running_s3(folder: Path) -> Iterator[str]:
    """A store without any bucket; its URL."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = folder / "s3.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            env={"PATH": os.environ["PATH"]},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), what="the store did not start")
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(STOP_DEADLINE_S)


def _answers(url: str) -> bool:
    """Whether it lists its buckets: it loads what it needs for that with the first request."""
    try:
        with urllib3.PoolManager() as pool:
            return pool.request("GET", f"{url}/", retries=False, timeout=60.0).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def a_backend(endpoint: str, provider: str = "minio", **members: Any) -> dict[str, Any]:
    """An entry of STORAGE_BACKENDS for a bucket of its own."""
    names = ("accessKeyId", "secretAccessKey") if provider == "aws-s3" else ("accessKey", "secretKey")
    return {
        "id": "main",
        "provider": provider,
        "endpoint": endpoint,
        "bucket": f"values-{next(_names)}",
        "credentials": dict(zip(names, ("an-access-key", "hunter2"), strict=True)),
        **members,
    }
