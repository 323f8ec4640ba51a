"""What is kept of a process that died."""

from pathlib import Path

import pytest

from servo.code.setting import CodeLocation, Setting
from servo.leader.assignments import Assignment
from servo.ledger.paths import Paths
from servo.storage.local import LocalStore
from servo.workers.local_pool.crash_output import UNKNOWN, keep_last_words
from servo.workspace.address import Address

ASSIGNMENT = Assignment(
    worker_id="w",
    exec_id="x1",
    run_id="run_1",
    task_key="a:materialize",
    attempt=1,
    attempt_id="t1",
    fencing_token=1,
)


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
    tmp_path: Path, words: bytes | None, crash: str, kept: str | None
) -> None:
    setting = Setting(
        location=CodeLocation(name="a", code="a.py", folder=""),
        address=Address.of(str(tmp_path), "t", "w"),
    )
    keep_last_words(setting, ASSIGNMENT, words, crash)
    store = LocalStore(tmp_path)
    logs = [store.get(meta.key).data for meta in store.list_after(Paths("t", "w").logs_of("run_1"))]
    assert [log.decode() for log in logs] == ([] if kept is None else [kept])
