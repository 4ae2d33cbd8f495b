"""`python -m chaos`: faults in a real stack for a while, then proofs. Exit code 0 only when all hold."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path

from chaos import plan, proofs, report, trial
from chaos.evidence import WITHIN_S
from chaos.figures import figures
from chaos.stack import NotUp
from pipeweave.errors import PipeWeaveError

OUT = Path(__file__).parent / "out"


def main(arguments: list[str] | None = None) -> int:
    """Run one fault test; 0 when every proof holds, 1 when one does not, 2 when nothing was tested."""
    options = _parser().parse_args(arguments)
    kinds = options.only.split(",") if options.only else tuple(plan.KINDS)
    if unknown := set(kinds) - plan.KINDS.keys():
        print(f"no such fault: {', '.join(unknown)}; there are {', '.join(plan.KINDS)}", file=sys.stderr)
        return 2
    made = plan.make(
        *(options.seed, options.seconds),
        kinds=kinds,
        pace=options.pace,
        broker=options.broker,
        database=options.database,
    )
    if options.only and (impossible := set(kinds) & plan.impossible(made.broker, made.database)):
        given = f"--broker {made.broker} --database {made.database}"
        print(f"there is no {', '.join(sorted(impossible))} with {given}", file=sys.stderr)
        return 2
    folder = _folder(options.folder)
    try:
        done = trial.run(made, folder, settle_s=options.settle, within_s=options.within, say=_say)
    except (NotUp, PipeWeaveError) as error:
        _say(f"nothing was tested: {error} (kept: {folder})")
        return 2
    found, numbers = proofs.contradictions(done.evidence), figures(done)
    ok = not any(found.values())
    document = {
        "seed": made.seed,
        "seconds": made.seconds,
        "broker": made.broker,
        "database": made.database,
        "ok": ok,
        "figures": numbers,
        "proofs": {proof: {"holds": not each, "contradictions": each} for proof, each in found.items()},
    }
    if options.json:
        print(json.dumps(document, indent=2))
    else:
        print("\n".join(report.lines(numbers, found)))
    if ok:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        (folder / "report.json").write_text(json.dumps(document, indent=2))
        _say(f"\nkept: {folder}")
    return 0 if ok else 1


def _folder(wanted: Path | None) -> Path:
    # Next to the sources, not in /tmp, which may be in memory, where a commit costs nothing.
    parent = wanted or OUT
    parent.mkdir(parents=True, exist_ok=True)
    return Path(tempfile.mkdtemp(prefix="trial-", dir=parent))


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m chaos", description=__doc__)
    parser.add_argument("--seconds", type=float, default=300, help="how long faults go on")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same plan")
    parser.add_argument("--only", metavar="KIND,…", help="only faults of these kinds")
    parser.add_argument(
        "--broker",
        choices=plan.BROKERS,
        help="one server, or two behind three sentinels (default: by the seed)",
    )
    parser.add_argument(
        "--database",
        choices=plan.DATABASES,
        help="PostgreSQL without or with a standby (default: by the seed)",
    )
    parser.add_argument(
        "--pace", type=float, default=1.0, help="what pauses between faults are multiplied by"
    )
    parser.add_argument(
        "--settle", type=float, default=90, help="seconds in which all runs must end after the last fault"
    )
    parser.add_argument(
        "--within", type=float, default=WITHIN_S, help="seconds in which every run goes on after a fault"
    )
    parser.add_argument("--folder", type=Path, help="where to put the data, which is kept when a proof fails")
    parser.add_argument("--json", action="store_true", help="print figures and proofs as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
