"""Storage backends for values too large for a row: files of a folder, or a bucket of S3, MinIO or Google.

The orchestrator (its room `store`), retention and the workers call it. It imports the base modules and
`settings`. It must never be called while a transaction holds row locks: a backend may be slow.
"""

from __future__ import annotations

from pipeweave.storage.backends import Backends, open_backend
from pipeweave.storage.base import ObjectInfo, Readable, Storage, WrittenContent
from pipeweave.storage.gcs import GcsStorage
from pipeweave.storage.local import LocalStorage
from pipeweave.storage.references import ObjectRef, backend_of, plain_path
from pipeweave.storage.s3 import S3Storage
from pipeweave.storage.seats import Seats

__all__ = [
    "Backends",
    "GcsStorage",
    "LocalStorage",
    "ObjectInfo",
    "ObjectRef",
    "Readable",
    "S3Storage",
    "Seats",
    "Storage",
    "WrittenContent",
    "backend_of",
    "open_backend",
    "plain_path",
]
