"""The worker processes of several code locations, which the leader sees as one set of workers.

Each location has a separate pool: only its processes import its code, it is reloaded alone, and if
it cannot be imported, the others continue. A task is routed by location (the leader grants
it to an idle worker of it) and then by worker id, which names the pool.
"""

import threading
from collections.abc import Mapping, Sequence
from datetime import timedelta

from servo.controllers.dispatch import IdleWorker
from servo.errors import Invalid
from servo.leader.assignments import Assignment
from servo.workers.local_pool.pool import GRACE, Pool


class LocatedPools:
    """A pool for every location, by its name; at least one."""

    def __init__(self, pools: Mapping[str, Pool]) -> None:
        self._pools = dict(pools)
        self._by_worker = {pool.name: pool for pool in pools.values()}

    # --- for the leader -----------------------------------------------------------------------

    def idle(self) -> Sequence[IdleWorker]:
        """The free slots of all pools."""
        return [worker for pool in self._pools.values() for worker in pool.idle()]

    def assign(self, assignments: Sequence[Assignment]) -> None:
        """Give each pool its granted executions."""
        if len(self._pools) == 1:
            self._by_worker[assignments[0].worker_id].assign(assignments)
            return
        shares: dict[str, list[Assignment]] = {}
        for assignment in assignments:
            shares.setdefault(assignment.worker_id, []).append(assignment)
        for name, share in shares.items():
            self._by_worker[name].assign(share)

    # --- for whoever started them -------------------------------------------------------------

    def of(self, location: str) -> Pool:
        """The pool of a location."""
        return self._pools[location]

    @property
    def actor(self) -> str:
        """The actor that reports for this process: its first pool."""
        return next(iter(self._pools.values())).actor

    def is_here(self, worker_id: str) -> bool:
        """Whether a worker is one of these pools."""
        return worker_id in self._by_worker

    @property
    def working(self) -> list[str]:
        """The locations whose code can be run."""
        return [name for name, pool in self._pools.items() if pool.broken is None]

    def start(self) -> None:
        """Start every process."""
        for pool in self._pools.values():
            pool.start()

    def wait(self) -> None:
        """Wait until every pool is ready or broken; `Invalid` if all of them are broken."""
        for pool in self._pools.values():
            pool.wait_until_up()
        self.check()

    def check(self, location: str = "") -> None:
        """Raise `Invalid` if a location, or every location, can no longer run anything."""
        if location in self._pools:
            self._pools[location].check()
        elif not self.working:
            broken = [pool.broken or "" for pool in self._pools.values()]
            raise Invalid("; ".join(broken), remedy="fix the code and start again")

    def at_work(self) -> list[str]:
        """The assets that are being materialized."""
        return [asset for pool in self._pools.values() for asset in pool.at_work()]

    def drain(self, limit: timedelta = GRACE) -> None:
        """Take nothing more, interrupt what runs and report it, within a limit for all."""
        # No executor: it would let a second Ctrl-C wait until every pool is drained.
        first, *others = self._pools.values()
        threads = [
            threading.Thread(target=pool.drain, args=(limit,), name="servo-drain", daemon=True)
            for pool in others
        ]
        for thread in threads:
            thread.start()
        first.drain(limit)
        for thread in threads:
            thread.join()

    def take_no_more(self) -> None:
        """Take nothing more, and give back what has not begun."""
        for pool in self._pools.values():
            pool.take_no_more()

    @property
    def busy(self) -> bool:
        """Whether something has begun and can still be reported."""
        return any(pool.busy for pool in self._pools.values())

    def stop(self) -> None:
        """End every process and wait for it."""
        for pool in self._pools.values():
            pool.stop()
