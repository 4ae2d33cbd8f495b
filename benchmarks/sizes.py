"""Define how much is measured: in full, quickly, or just enough to see that everything works."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes of one run of the benchmarks.

    Args:
        chain: steps in the chain.
        fan: width of 1 → n → 1.
        mapped: items of the map.
        mapped_written: items of the chord as users write it, measured once: 10,000 take it two minutes, and
            more per item than fewer do.
        diamonds: runs of four steps, sent by `clients` threads.
        singles: runs of one step, one after the other, in each round; 4,000 in all show the tail, and the
            replacement of children.
        triggered: runs of one step, sent by `clients` threads; their completion does not count.
        batch: runs of one step, sent with one request; their completion does not count.
        dispatches: steps of an HTTP worker, side by side.
        worked: steps of 10 ms in a chain.
        looked: requests of a list and of a page, and ticks.
        worked_off: runs of one step that a worker of many children works off.
        floors: commits, messages and requests that do nothing else.
        idle_s: seconds to look at idle processes.
        rounds: samples of every figure; the median counts.
        settling: warm-ups after a checkpoint, for ours alone: about as long as commits are slower then.
    """

    chain: int = 50
    fan: int = 1_000
    mapped: int = 10_000
    mapped_written: int = 4_000
    diamonds: int = 200
    clients: int = 8
    singles: int = 800
    triggered: int = 400
    batch: int = 1_000
    dispatches: int = 300
    worked: int = 40
    looked: int = 20
    worked_off: int = 2_000
    floors: int = 1_000
    idle_s: float = 20
    rounds: int = 5
    settling: int = 10


FULL = Sizes()
QUICK = Sizes(mapped_written=1_000, singles=30, idle_s=5, rounds=2)
SMOKE = Sizes(
    chain=3,
    fan=8,
    mapped=20,
    mapped_written=20,
    diamonds=4,
    clients=2,
    singles=2,
    triggered=4,
    batch=4,
    dispatches=6,
    worked=3,
    looked=2,
    worked_off=4,
    floors=4,
    idle_s=0.5,
    rounds=1,
    settling=1,
)
