"""`python -m pipeweave.storage`: create the buckets of all storage backends that do not exist yet."""

from __future__ import annotations

import sys

from pipeweave.errors import PipeWeaveError
from pipeweave.settings import load
from pipeweave.storage import Backends, GcsStorage, S3Storage


def main() -> int:
    """Create the buckets and print what was done; return 1 and print the error on stderr if that failed."""
    try:
        backends = Backends.of(load())
        opened = map(backends.get, backends.ids)
        buckets = [each for each in opened if isinstance(each, S3Storage | GcsStorage)]
        for each in buckets:
            is_new = each.make_bucket()
            print(f"Bucket {each.bucket.name} {'created' if is_new else 'exists'}.")
        if not buckets:
            print("Files in a folder need no bucket.")
    except PipeWeaveError as error:
        print(error.detail, *(f"({each.field} {each.message})" for each in error.errors), file=sys.stderr)
        if error.hint:
            print(error.hint, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
