"""What is kept of a process that died."""

import pytest

from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.workers.local_pool.crash_output import WITHHELD, store_crash_output


@pytest.mark.parametrize(
    ("printed", "crash", "kept"),
    [
        (b"", "", None),
        (b"printed", "", "printed"),
        (b"", "crashed", "crashed"),
        (None, "", WITHHELD),
        (None, "crashed", f"{WITHHELD}crashed"),
    ],
)
def test_what_may_hold_secrets_is_not_kept_and_that_is_said(
    printed: bytes | None, crash: str, kept: str | None
) -> None:
    store = MemoryStore(ManualClock())
    store_crash_output(store, "log", printed, crash)
    logs = [store.get(meta.key).data for meta in store.list_after("")]
    assert [log.decode() for log in logs] == ([] if kept is None else [kept])
