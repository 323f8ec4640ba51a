"""What is kept of a process that died."""

import pytest

from servo.storage.memory import MemoryStore
from servo.testing.clock import ManualClock
from servo.workers.local_pool.crash_output import UNKNOWN, keep_last_words


@pytest.mark.parametrize(
    ("words", "crash", "kept"),
    [
        (b"", "", None),
        (b"printed", "", "printed"),
        (b"", "crashed", "crashed"),
        (None, "", UNKNOWN),
        (None, "crashed", f"{UNKNOWN}crashed"),
    ],
)
def test_what_may_hold_secrets_is_not_kept_and_that_is_said(
    words: bytes | None, crash: str, kept: str | None
) -> None:
    store = MemoryStore(ManualClock())
    keep_last_words(store, "log", words, crash)
    logs = [store.get(meta.key).data for meta in store.list_after("")]
    assert [log.decode() for log in logs] == ([] if kept is None else [kept])
