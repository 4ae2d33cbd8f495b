"""`python -m benchmarks`: measure, print, write benchmarks/out/latest.json."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from benchmarks import against, history, open_pages, report, sleepers
from benchmarks.environment import Environment, environment
from benchmarks.figures import Benchmark, Figures, middle
from benchmarks.measure import benchmarks, warm_up
from benchmarks.report import Again, Measured
from benchmarks.sizes import FULL, QUICK, SMOKE, Sizes
from benchmarks.systems import BenchmarkFailed
from pipeweave.errors import PipeWeaveError


def main(arguments: list[str] | None = None) -> int:
    """Run the requested benchmarks and return the exit code."""
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.results and (options.only or options.smoke or options.watched or options.sleepers):
        parser.error("--results takes the whole: not with --only, --smoke, --watched or --sleepers")
    further = options.watched or options.history or options.sleepers
    if options.against and (options.results or further or options.out):
        parser.error("--against prints ratios: not with --results, --watched, --history, --sleepers or --out")
    sizes = QUICK if options.quick else SMOKE if options.smoke else FULL
    rounds = options.rounds or sizes.rounds
    # With pages the rounds alternate: each measures every figure once without and once with them.
    sizes = replace(sizes, rounds=1 if options.watched else rounds)
    chosen = [each for each in benchmarks(sizes) if _is_chosen(each, options.only)]
    if options.sleepers:
        chosen = [_asleep(options.sleepers, sizes)]
    if not chosen:
        names = ", ".join(each.name for each in benchmarks(sizes))
        print(f"no such benchmark; there are {names}", file=sys.stderr)
        return 2
    try:
        if options.against:
            print("\n" + against.compare(options.against, options.pairs, _turn(options), options.its_own))
            return 0
        figures, again = measure(chosen, sizes, rounds, options.history, options.watched, options.calls)
    except (BenchmarkFailed, PipeWeaveError) as error:
        print(f"not measured: {error}", file=sys.stderr)
        return 1
    print("\n" + report.table(figures, again))
    print("\n" + report.costs(figures))
    is_whole = not (options.only or options.smoke or options.watched or options.sleepers)
    file = options.out or (report.LATEST if is_whole else report.LATEST.with_name("partial.json"))
    report.write_json(figures, file, again)
    print(f"\nwritten to {file}")
    if options.results:
        report.write_results(report.markdown(figures, again))
    return 0


def measure(
    chosen: list[Benchmark],
    sizes: Sizes,
    rounds: int,
    finished: int = 0,
    watched: int = 0,
    counts_calls: bool = False,
) -> tuple[Measured, Again | None]:
    """Start everything in a new folder, measure, stop everything.

    Args:
        rounds: samples of every figure.
        finished: runs to put into the tables afterwards, to measure ours before and after that.
        watched: open pages, without and with which ours alone is measured; then nothing else is.
        counts_calls: our processes count their calls of Python functions, which makes them slower.

    Returns:
        The figures, and ours alone without and with that history, or those pages.

    Raises:
        BenchmarkFailed: a benchmark failed; the message names the folder with the logs.
    """
    # Next to the sources, not in /tmp, which may be in memory, where a commit costs nothing.
    parent = report.LATEST.parent
    parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="rig-", dir=parent))
    try:
        began = time.monotonic()
        with environment(folder, counts_calls) as up:
            warm_up(up.systems, sizes)
            print(f"up and warm after {time.monotonic() - began:.0f} s; medians of {rounds}", flush=True)
            if watched:
                again = _watched(chosen, up.alone, watched, rounds)
                return again.without, again
            figures = _measure(chosen, up)
            return figures, _with_history(chosen, up, sizes, finished) if finished else None
    except BenchmarkFailed as error:
        kept = shutil.copytree(folder / "logs", parent / "failed-logs", dirs_exist_ok=True)
        raise BenchmarkFailed(f"{error} (logs: {kept})") from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _measure(chosen: list[Benchmark], up: Environment) -> dict[str, Figures]:
    figures = {}
    for each in chosen:
        began = time.monotonic()
        figures[each.name] = each.measure(up)
        shown = ", ".join(f"{k} {v:.2f}" for k, v in figures[each.name].values.items())
        for system in up.systems:
            system.verify()
        print(f"{each.name}: {shown} ({time.monotonic() - began:.0f} s)", flush=True)
    return figures


def _with_history(chosen: list[Benchmark], up: Environment, sizes: Sizes, count: int) -> Again:
    """Measure ours, fill the tables, measure ours again: only the history is new."""
    print("ours alone", flush=True)
    without = _measure_settled(chosen, up, sizes)
    began = time.monotonic()
    assert up.settings.database_url is not None
    history.fill(up.settings.database_url, count, "single")
    print(f"{count:,} finished runs put there in {time.monotonic() - began:.0f} s; ours again", flush=True)
    return Again(without, _measure_settled(chosen, up, sizes))


def _asleep(count: int, sizes: Sizes) -> Benchmark:
    return Benchmark(f"sleepers_{count}", lambda up: sleepers.measure(up, count, sizes.idle_s))


def _watched(chosen: list[Benchmark], alone: Environment, count: int, rounds: int) -> Again:
    """Measure each figure without and with open pages, in turns: a machine that slows down disturbs both."""
    without: dict[str, Figures] = {}
    beside: dict[str, Figures] = {}
    # Those two open pages and streams themselves.
    for each in (one for one in chosen if one.name not in ("pages", "watchers")):
        turns: tuple[list[Figures], list[Figures]] = ([], [])
        for _ in range(rounds):
            turns[0].append(_measure([each], alone)[each.name])
            with open_pages.opened(alone.pipeweave, count):
                turns[1].append(_measure([each], alone)[each.name])
        without[each.name], beside[each.name] = map(middle, turns)
    return Again(without, beside, "pages")


def _measure_settled(chosen: list[Benchmark], up: Environment, sizes: Sizes) -> Measured:
    """Measure ours when a checkpoint is over, and what follows it: each page is logged whole at its first
    change.
    """
    history.settle(up.log.admin_url)
    for _ in range(sizes.settling):
        warm_up(up.alone.systems, sizes)
        up.alone.pipeweave.fan(sizes.fan)
    return _measure(chosen, up.alone)


def _turn(options: argparse.Namespace) -> list[str]:
    """The arguments of each turn of a comparison."""
    sizes = ["--quick"] if options.quick else ["--smoke"] if options.smoke else []
    rounds = ["--rounds", str(options.rounds)] if options.rounds else []
    calls = ["--calls"] if options.calls else []
    return [*sizes, *rounds, *calls, *(argument for each in options.only for argument in ("--only", each))]


def _whole(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return number


def _is_chosen(benchmark: Benchmark, only: list[str]) -> bool:
    return not only or any(benchmark.name == each or benchmark.name.startswith(f"{each}_") for each in only)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--quick", action="store_true", help="two rounds and a narrower chord for Celery")
    how.add_argument("--smoke", action="store_true", help="tiny sizes: does everything work?")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="e.g. chain; may be repeated"
    )
    parser.add_argument("--rounds", type=_whole, metavar="N", help="samples of every figure")
    parser.add_argument(
        "--history",
        type=_whole,
        metavar="N",
        help="afterwards, put N finished runs into the tables and measure ours again",
    )
    parser.add_argument(
        "--watched",
        type=_whole,
        metavar="N",
        default=0,
        help="instead, measure ours without and with N open pages of the dashboard",
    )
    parser.add_argument(
        "--sleepers",
        type=_whole,
        metavar="N",
        default=0,
        help="instead, measure what N sleeping runs cost, and how fast they wake when all are due at once",
    )
    parser.add_argument(
        "--calls",
        action="store_true",
        help="count the calls of Python functions of each process, too, for costs: all is slower",
    )
    parser.add_argument(
        "--against", metavar="REF", help="instead, measure this tree and another commit in turns"
    )
    parser.add_argument(
        "--pairs", type=_whole, metavar="N", default=4, help="turns of each tree, with --against (4)"
    )
    parser.add_argument(
        "--its-own",
        action="store_true",
        help="with --against: measure the other commit with its own benchmarks",
    )
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON document here instead")
    parser.add_argument("--results", action="store_true", help="put the figures into benchmarks/RESULTS.md")
    return parser


if __name__ == "__main__":
    sys.exit(main())
