"""A Google Cloud Storage emulator for tests: a real HTTP server in a process of its own."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import urllib3
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from pipeweave.up.ports import free_port
from support.servers import wait_until

STOP_DEADLINE_S = 60.0

_names = itertools.count(1)


@contextmanager
def running_gcs(folder: Path) -> Iterator[str]:
    """An emulator without any bucket; its URL."""
    url = f"http://127.0.0.1:{(port := free_port())}"
    log = folder / "gcs.log"
    arguments = ["start", "--host", "127.0.0.1", "--port", str(port), "--in-memory", "--quiet"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "gcp_storage_emulator", *arguments],
            env={"PATH": os.environ["PATH"]},
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
    try:
        wait_until(lambda: process.poll() is not None or _answers(url), what="the emulator did not start")
        assert process.poll() is None, log.read_text()
        yield url
    finally:
        process.terminate()
        process.wait(STOP_DEADLINE_S)


def _answers(url: str) -> bool:
    try:
        with urllib3.PoolManager() as pool:
            return pool.request("GET", url, retries=False, timeout=10.0).status == 200
    except urllib3.exceptions.HTTPError:
        return False


def a_gcs_backend(endpoint: str, **members: Any) -> dict[str, Any]:
    """An entry of STORAGE_BACKENDS for a bucket of its own in an emulator, which knows no accounts."""
    return {
        "id": "google",
        "provider": "gcs",
        "endpoint": endpoint,
        "bucket": f"values-{next(_names)}",
        "credentials": {},
        **members,
    }


@cache
def an_account() -> dict[str, str]:
    """The credentials of a service account that Google does not know."""
    key = rsa.generate_private_key(65537, 2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return {
        "projectId": "a-project",
        "clientEmail": "values@a-project.iam.gserviceaccount.com",
        "privateKey": pem.decode(),
    }
