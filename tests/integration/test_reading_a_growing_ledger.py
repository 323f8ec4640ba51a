"""A reader of a folder follows a ledger that another process appends to at full speed."""

import subprocess
import sys
from pathlib import Path

import pytest

from servo.ledger.paths import Paths
from servo.ledger.reader import LedgerReader
from servo.storage.local import LocalStore

pytestmark = pytest.mark.slow

ENTRIES = 3_000
PATHS = Paths("acme", "prod")
WRITER = """
import sys
from datetime import UTC, datetime, timedelta
from servo.core.events.codec import encode_entry
from servo.core.events.envelope import Entry
from servo.ledger.paths import Paths
from servo.storage.local import LocalStore

store, paths, before = LocalStore(sys.argv[1]), Paths("acme", "prod"), ""
for seq in range(1, int(sys.argv[2]) + 1):
    ts = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=seq)
    entry = Entry(
        seq=seq, epoch=1, owner="o", nonce=str(seq), ts=ts, prev_hash=before, fold_version=1
    )
    data, before = encode_entry(entry, [])
    store.create(paths.ledger_entry(seq), data)
"""


def test_a_growing_ledger_never_looks_damaged(tmp_path: Path) -> None:
    reader = LedgerReader(LocalStore(tmp_path), PATHS)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(ENTRIES)])
    seq = 0
    while seq < ENTRIES:
        for entry, _ in reader.forward(seq):
            seq = entry.seq
        _ = reader.ends_after(seq)
        assert writer.poll() in (None, 0)
    assert writer.wait() == 0
    assert reader.ends_after(ENTRIES)
