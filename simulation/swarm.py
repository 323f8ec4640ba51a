"""The world of a seed: which faults are on, how strong, and how many of everything.

All faults at once hide bugs from each other, so each seed first draws which it uses. Every fourth
world is a storm: leaders come, sleep and wake by the dozen, and what they knew is archived and
collected meanwhile. What goes wrong between leaders is rare elsewhere.
"""

import random
from datetime import timedelta

import msgspec
from msgspec.structs import replace

from servo.config import Settings
from simulation.faults import QueueFaults, StoreFaults


class Triggering(msgspec.Struct, frozen=True, kw_only=True):
    """The triggers of a world, who hosts them, and how they fail.

    Every leader hosts triggers, and so do `hosts` elsewhere, which follow the ledger and reach a
    leader over the network.
    """

    schedules: bool
    polls: bool
    pushes: bool
    conditions: bool
    echoes: bool
    beside_leaders: bool
    hosts: int
    every_s: int
    max_catchup_ticks: int
    senders: int
    pausers: int
    code_fails: float
    evaluator_dies: float
    evaluator_slow: float


class Commands(msgspec.Struct, frozen=True, kw_only=True):
    """How many machines run commands, how often one is started, and what is done to them."""

    machines: int
    every_ms: int
    dev: bool
    kill: float
    kill_worker: float
    suspend: float


class Swarm(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of one world."""

    store: StoreFaults
    queue: QueueFaults
    settings: Settings
    faulty_ms: int
    rpc_lost: float
    rpc_duplicated: float
    rpc_slow: float
    crash_leader: float
    pause_leader: float
    extra_leader: float
    crash_other: float
    pause_other: float
    chaos_every_ms: int
    max_leaders: int
    skew_ms: int
    clock_jumps: float
    outages: float
    workers: int
    local_slots: int
    runs: int
    sensors: int
    tickers: int
    backfills: int
    inbox_items: int
    task_cap: int | None
    pool_limit: int | None = None
    ack_timeout_ms: int
    failure_rate: float
    cancel_rate: float
    workload: str = ""
    longest_task_ms: int = 0
    given_back: float = 0.0
    hosts: int = 0
    owners: int = 0
    triggers: Triggering | None = None
    commands: Commands | None = None
    power_cuts: int = 0


STORM_EVERY = 4
GIVING_BACK_EVERY = 8
LIMITED_POOL_EVERY = 8


def draw(seed: int) -> Swarm:
    """The world of a seed."""
    world = _any_world(seed)
    if seed % GIVING_BACK_EVERY == GIVING_BACK_EVERY - 2:
        world = replace(world, given_back=0.3)
    if seed % LIMITED_POOL_EVERY == LIMITED_POOL_EVERY - 3:
        world = replace(world, pool_limit=1 + seed // LIMITED_POOL_EVERY % 2)
    return _storm(world, seed) if seed % STORM_EVERY == STORM_EVERY - 1 else world


def idle(world: Swarm) -> Swarm:
    """The same world, in which nobody asks for anything."""
    return replace(world, runs=0, sensors=0, tickers=0, backfills=0, inbox_items=0)


def _storm(world: Swarm, seed: int) -> Swarm:
    rng = random.Random(f"storm-{seed}")
    soon = timedelta(seconds=3)
    return replace(
        world,
        store=replace(
            world.store,
            asleep=rng.uniform(0.02, 0.15),
            late=rng.uniform(0, 0.05),
            damaged_read=0.0,
        ),
        settings=replace(
            world.settings,
            publish_every=timedelta(milliseconds=rng.choice((300, 1500))),
            gc_every=timedelta(seconds=2),
            gc_min_age=soon,
            archive_after=soon,
            entries_per_segment=rng.choice((4, 10)),
            keep_all_for=soon,
            keep_hourly_for=soon,
            keep_daily_for=soon,
        ),
        faulty_ms=30_000,
        crash_leader=rng.uniform(0, 0.3),
        pause_leader=rng.uniform(0.2, 0.7),
        extra_leader=rng.uniform(0.3, 0.8),
        chaos_every_ms=rng.choice((300, 800)),
        max_leaders=rng.choice((3, 4, 5)),
        outages=rng.uniform(0, 0.4),
        workers=1,
        runs=rng.choice((2, 4)),
        backfills=0,
    )


def _any_world(seed: int) -> Swarm:
    rng = random.Random(f"swarm-{seed}")

    def maybe(strongest: float, *, odds: float = 0.6) -> float:
        return rng.uniform(0, strongest) if rng.random() < odds else 0.0

    gc_age = rng.choice((3, 6, 12, 40))
    return Swarm(
        store=StoreFaults(
            lost=maybe(0.03),
            answer_lost=maybe(0.03),
            late=maybe(0.02),
            refused=maybe(0.04),
            slow=maybe(0.05),
            damaged_read=maybe(0.002, odds=0.3),
            stale_hint=maybe(0.5),
            asleep=maybe(0.03, odds=0.5),
        ),
        queue=QueueFaults(
            lost=maybe(0.1),
            duplicated=maybe(0.2),
            delayed=maybe(0.15),
            redelivered=maybe(0.1),
            refused=maybe(0.1),
        ),
        settings=Settings(
            publish_every=timedelta(milliseconds=rng.choice((300, 1500, 4000))),
            sweep_every=timedelta(milliseconds=rng.choice((200, 1000))),
            inbox_every=timedelta(milliseconds=rng.choice((500, 2000))),
            close_after=timedelta(seconds=rng.choice((1, 5, 3600))),
            gc_every=timedelta(seconds=rng.choice((2, 5))),
            gc_min_age=timedelta(seconds=gc_age),
            archive_after=timedelta(seconds=rng.choice((gc_age, gc_age, 86_400))),
            entries_per_segment=rng.choice((4, 10, 2_000)),
            keep_all_for=timedelta(seconds=gc_age),
            keep_hourly_for=timedelta(seconds=gc_age),
            keep_daily_for=timedelta(seconds=gc_age),
        ),
        faulty_ms=rng.choice((15_000, 30_000, 45_000)),
        rpc_lost=maybe(0.05),
        rpc_duplicated=maybe(0.08),
        rpc_slow=maybe(0.1),
        crash_leader=maybe(0.3),
        pause_leader=maybe(0.3),
        extra_leader=maybe(0.25),
        crash_other=maybe(0.3),
        pause_other=maybe(0.3),
        chaos_every_ms=rng.choice((500, 1500, 4000)),
        max_leaders=rng.choice((2, 3, 4)),
        skew_ms=rng.choice((0, 500, 3000)),
        clock_jumps=maybe(0.1, odds=0.3),
        outages=maybe(0.4),
        workers=rng.choice((1, 2, 4)),
        local_slots=rng.choice((0, 0, 1, 3)),
        runs=rng.choice((2, 4, 6)),
        sensors=rng.choice((0, 2)),
        tickers=rng.choice((0, 2)),
        backfills=rng.choice((0, 0, 1)),
        inbox_items=rng.choice((0, 0, 3)),
        task_cap=rng.choice((None, 1, 3)),
        ack_timeout_ms=rng.choice((1500, 4000)),
        failure_rate=rng.choice((0.0, 0.15, 0.4)),
        cancel_rate=rng.choice((0.0, 0.3)),
    )
