"""Try the few tests that have failed beside others once more, one after the other, and name them.

On a machine that others use, a test in ten thousand meets rows of another one, or a pause of seconds. A fault
of the product fails again, and more than a few failures are no chance: then nothing is tried.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

FAILED = Path(".pytest_cache/v/cache/lastfailed")
MOST = 3


def main() -> int:
    """The exit code: 0 if each of them passes now."""
    failed = sorted(json.loads(FAILED.read_text())) if FAILED.exists() else []
    if not 0 < len(failed) <= MOST:
        return 1
    print(f"once more, alone: {', '.join(failed)}", flush=True)
    code = subprocess.run([sys.executable, "-m", "pytest", "-q", "-n", "0", *failed], check=False).returncode
    if code == 0:
        print(f"UNSTABLE, failed beside other tests and passed alone: {', '.join(failed)}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
