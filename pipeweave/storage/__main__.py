"""`python -m pipeweave.storage`: create the bucket of the default storage backend unless it exists."""

from __future__ import annotations

import sys

from pipeweave.errors import PipeWeaveError
from pipeweave.settings import load
from pipeweave.storage import S3Storage, open_storage


def main() -> int:
    """Create the bucket and print what was done; return 1 and print the error on stderr if that failed."""
    try:
        storage = open_storage(load())
        if not isinstance(storage, S3Storage):
            print("Files in a folder need no bucket.")
        else:
            is_new = storage.make_bucket()
            print(f"Bucket {storage.bucket.name} {'created' if is_new else 'exists'}.")
    except PipeWeaveError as error:
        print(error.detail, *(f"({each.field} {each.message})" for each in error.errors), file=sys.stderr)
        if error.hint:
            print(error.hint, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
