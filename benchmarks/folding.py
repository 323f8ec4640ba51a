"""The fold alone: no store, no encoding, one thread.

Events come as workers and controllers send them: reports one to a batch, dispatches of one round
together; and in entries of as many as one commit takes.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta

from benchmarks import plans
from benchmarks.floors import replace_rows
from benchmarks.measure import Result, Samples, Work, cost_of_one, throughput
from benchmarks.scratch import Scratch
from servo.core.events.envelope import Answer, Batch, Event
from servo.core.events.quotas import QuotaSet
from servo.core.events.tasks import TaskOutcome
from servo.core.fold.apply import apply_batch, open_entry
from servo.core.plan import TaskSpec
from servo.core.retry import RetryRules
from servo.core.state.state import State
from servo.leader.memory import look_for_cycles_less_often
from servo.projection.publish.closing import forget_history
from servo.testing.builders import START

CYCLE = 64
TICK = timedelta(milliseconds=1)

Layer = Callable[[str, range], list[Batch]]


class Workspace:
    """A state that is folded and never stored."""

    def __init__(self) -> None:
        self.state = State("acme", "bench")
        self.state.ts = START
        self.answers: list[Answer] = []
        self.commit([Batch(id="quota", events=(QuotaSet(max_concurrent_tasks=1_000_000),))])

    def commit(self, batches: Sequence[Batch]) -> None:
        """Fold one entry."""
        state = self.state
        open_entry(state, seq=state.seq + 1, epoch=1, ts=state.ts + TICK, stall=False)
        self.answers += [apply_batch(state, batch, n) for n, batch in enumerate(batches)]
        state.seal()

    def commit_all(self, batches: Sequence[Batch]) -> None:
        """Fold as many entries as it takes."""
        for start in range(0, len(batches), CYCLE):
            self.commit(batches[start : start + CYCLE])

    def forget(self) -> None:
        """Be as after a publish, with everything applied so far."""
        refused = [answer for answer in self.answers if not answer.applied]
        assert not refused, refused[0]
        self.answers.clear()
        for table in self.state.tables.values():
            table.dirty = {}
        forget_history(self.state)


def fold_events(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Tasks with two upstreams each, layer by layer: handed over, or through a queue."""
    del scratch
    return [
        _fold_events("fold_events.handed_over", _handed_over, quick=quick),
        _fold_events("fold_events.queued", _queued, quick=quick),
    ]


def _fold_events(name: str, layer_of: Layer, *, quick: bool) -> Result:
    look_for_cycles_less_often()  # as in a leader
    tasks, width, rounds = (400, 50, 2) if quick else (2_000, 200, 25)
    workspace, measured, floor = Workspace(), Samples(), Samples()
    count = 0
    for number in range(rounds):
        run = f"run_{number}"
        workspace.commit([plans.planned(run, plans.layered(tasks, width))])
        row = workspace.state.tasks.rows[run, plans.key(0)]
        for first in range(0, tasks, width):
            batches = layer_of(run, range(first, first + width))
            count = sum(len(batch.events) for batch in batches)
            measured.time(lambda todo=batches: workspace.commit_all(todo))
            floor.time(lambda row=row, count=count: replace_rows(row, count))
        assert workspace.state.runs.rows[run].state == "SUCCEEDED"
        workspace.forget()
    return throughput(name, count, measured, floor, least=100_000)


def _handed_over(run: str, tasks: range) -> list[Batch]:
    """Two events a task: given to a worker that waits, and finished."""
    starts = [plans.started(run, number) for number in tasks]
    ends = [plans.finished(run, number) for number in tasks]
    name = f"{run}-{tasks.start}"
    return [*_together(f"{name}-s", starts), *plans.one_each(f"{name}-e", ends)]


def _queued(run: str, tasks: range) -> list[Batch]:
    """Four events a task: dispatched, enqueued, claimed, and finished."""
    sent, taken, claimed = zip(*[plans.queued(run, number) for number in tasks], strict=True)
    ends = [plans.finished(run, number) for number in tasks]
    name = f"{run}-{tasks.start}"
    return [*_together(f"{name}-s", sent), *plans.one_each(name, [*taken, *claimed, *ends])]


def _together(name: str, events: Sequence[Event]) -> Iterator[Batch]:
    """What one round of the controllers dispatches, as one batch."""
    for start in range(0, len(events), CYCLE):
        yield Batch(id=f"{name}-{start}", events=tuple(events[start : start + CYCLE]))


def skip_chain(scratch: Scratch, *, quick: bool) -> list[Result]:
    """The head of a long chain fails and everything behind it is skipped, in one fold."""
    del scratch
    sizes, rounds = ((50, 500), 3) if quick else ((500, 5_000), 15)
    samples = [Samples() for _ in sizes]
    for number in range(rounds):
        for held, size in zip(samples, sizes, strict=True):
            _fail_chain(held, f"run_{number}_{size}", size)
    small, large = samples
    return [cost_of_one("skip_chain", small, large, per=sizes, most=1.5)]


def _fail_chain(samples: Samples, run: str, size: int) -> None:
    workspace = Workspace()
    head, *rest = plans.chain(size)
    once = TaskSpec(
        task_key=head.task_key, asset_key=head.asset_key, retry=RetryRules(max_attempts=1)
    )
    workspace.commit([plans.planned(run, [once, *rest])])
    workspace.commit(list(plans.one_each(f"{run}-start", [plans.started(run, 0)])))
    failure = list(plans.one_each(run, [plans.finished(run, 0, TaskOutcome.FAILED)]))
    samples.time(lambda: workspace.commit(failure))
    ended = workspace.state.runs.rows[run]
    assert (ended.state, ended.tasks_skipped) == ("FAILED", size - 1)


def fan_in(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Many tasks finish and one waits for them all: what each costs, by how many they are."""
    del scratch
    narrow, wide, rounds = (2 * CYCLE, 5 * CYCLE, 2) if quick else (1_000, 10_000, 5)
    samples = Samples(), Samples()
    for number in range(rounds):
        small = _finishing(f"run_{number}_small", narrow)
        for commit_wide in _finishing(f"run_{number}_large", wide):
            commit_narrow = next(small, None)
            if commit_narrow is None:
                small = _finishing(f"run_{number}_small", narrow)
                commit_narrow = next(small)
            samples[0].time(commit_narrow)
            samples[1].time(commit_wide)
    return [cost_of_one("fan_in", *samples, per=(CYCLE, CYCLE), most=1.5)]


def _finishing(run: str, width: int) -> Iterator[Work]:
    """The entries in which the tasks finish, each to be committed before the next is asked for."""
    workspace = Workspace()
    workspace.commit([plans.planned(run, plans.fan_in(width))])
    starts = [plans.started(run, number) for number in range(width)]
    workspace.commit_all(list(plans.one_each(f"{run}-start", starts)))
    ends = list(plans.one_each(run, [plans.finished(run, number) for number in range(width)]))
    whole = width - width % CYCLE
    for start in range(0, whole, CYCLE):
        yield lambda todo=ends[start : start + CYCLE]: workspace.commit(todo)
    workspace.commit(ends[whole:])
    assert workspace.state.tasks.rows[run, plans.key(width)].state == "READY"
