"""A bar for reads that fold entries of the ledger: those of the past, and of what is not published.

It appears where somebody is looking, and only once so many entries were folded that the answer may
take a while.
"""

from collections.abc import Generator
from contextlib import ExitStack, contextmanager

from servo.cli.rendering.output import Bar, progress
from servo.operations.interface.moments import AsOf, ReplayProgress

PATIENCE = 100
"""Entries that are folded before anybody would look for a bar."""


@contextmanager
def replay_bar(as_of: AsOf) -> Generator[ReplayProgress]:
    """Show how far the ledger was replayed, until the tables are as they were at a moment."""
    with ExitStack() as opened:
        folded, bar = 0, None

        def step(seq: int) -> None:
            nonlocal folded, bar
            folded += 1
            if folded < PATIENCE:
                return
            bar = bar or _opened(opened)
            bar("replaying the ledger", seq, as_of if isinstance(as_of, int) else seq)

        yield step


def _opened(opened: ExitStack) -> Bar:
    return opened.enter_context(progress())
