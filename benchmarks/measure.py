"""How benchmarks measure, and what a measurement means.

A number alone says little on a machine that others use too. So every one is taken beside a floor,
the least that any implementation would have to do, sample by sample in turn, and both are reported
as medians: what disturbs one disturbs the other. Processor time is reported as well; it is the
same however long the process had to wait for a core.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from statistics import median

import msgspec

Work = Callable[[], object]


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output.

    `ratio` is the proportion of value and floor, or of a large size and a small one (whose value
    is then the floor). `cpu` is the value as it were if only the processor time of this process had
    passed, `best` that of the sample which was disturbed least.
    """

    name: str
    value: float
    unit: str
    floor: float | None = None
    ratio: float | None = None
    target: str = ""
    met: bool | None = None
    cpu: float | None = None
    best: float | None = None


class Sample(msgspec.Struct, frozen=True):
    """Seconds that passed, and seconds that this process computed."""

    wall: float
    cpu: float


class Samples:
    """What was measured so far."""

    def __init__(self, taken: Iterable[Sample] = ()) -> None:
        self.taken = list(taken)

    def time(self, work: Work) -> None:
        self.taken.append(timed(work))

    @property
    def wall(self) -> float:
        return median(sample.wall for sample in self.taken)

    @property
    def cpu(self) -> float:
        return median(sample.cpu for sample in self.taken)

    @property
    def best(self) -> float:
        return min(sample.wall for sample in self.taken)


def timed(work: Work) -> Sample:
    """Do something once."""
    cpu, wall = time.process_time(), time.perf_counter()
    _ = work()
    return Sample(time.perf_counter() - wall, time.process_time() - cpu)


def in_turn(works: Sequence[Work], rounds: int) -> list[Samples]:
    """Do several things in turn, so often; their samples in the same order."""
    samples = [Samples() for _ in works]
    for _ in range(rounds):
        for held, work in zip(samples, works, strict=True):
            held.time(work)
    return samples


def latency(name: str, measured: Samples, floor: Samples, *, most: float | None) -> Result:
    """How long something takes, in milliseconds, as a multiple of its floor."""
    ratio = measured.wall / floor.wall
    return Result(
        name=name,
        value=measured.wall * 1e3,
        unit="ms",
        floor=floor.wall * 1e3,
        ratio=ratio,
        target="" if most is None else f"ratio <= {most}",
        met=None if most is None else ratio <= most,
        cpu=measured.cpu * 1e3,
        best=measured.best * 1e3,
    )


def throughput(
    name: str, count: int, measured: Samples, floor: Samples | None = None, *, least: float
) -> Result:
    """How many of `count` events a second."""
    return Result(
        name=name,
        value=count / measured.wall,
        unit="events/s",
        floor=None if floor is None else count / floor.wall,
        ratio=None if floor is None else measured.wall / floor.wall,
        target=f">= {least:.0f}",
        met=count / measured.wall >= least,
        cpu=count / measured.cpu,
        best=count / measured.best,
    )


def growth(name: str, small: Samples, large: Samples, *, most: float) -> Result:
    """Whether something takes as long beside much as beside little."""
    ratio = large.wall / small.wall
    return Result(
        name=name,
        value=large.wall * 1e3,
        unit="ms",
        floor=small.wall * 1e3,
        ratio=ratio,
        target=f"ratio <= {most}",
        met=ratio <= most,
        cpu=large.cpu * 1e3,
        best=large.best * 1e3,
    )


def cost_of_one(
    name: str, small: Samples, large: Samples, *, per: tuple[int, int], most: float
) -> Result:
    """Whether one of many costs as much as one of few; `per` says how many a sample did.

    By processor time: a long sample is interrupted more often than a short one.
    """
    before, after = small.cpu / per[0], large.cpu / per[1]
    return Result(
        name=name,
        value=after * 1e6,
        unit="us",
        floor=before * 1e6,
        ratio=after / before,
        target=f"ratio <= {most}",
        met=after / before <= most,
        cpu=after * 1e6,
        best=large.best / per[1] * 1e6,
    )
