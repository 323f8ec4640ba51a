"""Background jobs on a separate thread."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from servo.ports.background import Job


class ThreadBackground:
    """One worker thread; it wakes the waiting caller when a job ends."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="servo-maintenance")
        self._wake = wake

    def start(self, work: Callable[[], Any]) -> Job:
        job: Future[Any] = self._pool.submit(work)
        job.add_done_callback(lambda _: self._wake())
        return job

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
