"""A workspace that a newer Servo wrote: this one refuses to lead it, and reads what it can."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from servo.ledger.paths import Paths
from servo.storage.local import LocalStore
from servo.testing.command_line import servo

PATHS = Paths("default", "default")
NEEDS_UPGRADE = 9
CODE = """
from servo import asset

@asset
def orders():
    return 1
"""
LEADING = [
    ("materialize", "assets.py"),
    ("tick", "assets.py"),
    ("resume",),
    ("dev", "assets.py"),
    ("admin", "rebuild", "--yes"),
    ("admin", "lane", "set", "fast", "2"),
]
READING = [
    ("status",),
    ("run", "list"),
    ("asset", "history", "orders"),
    ("sql", "select count(*) from runs"),
]

Body = dict[str, Any]


class Newer:
    """A workspace in a folder, and what a newer version of Servo wrote into it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = LocalStore(folder / ".servo")

    def run(self, *arguments: str) -> Any:
        return servo(self.folder, *arguments)

    def objects(self) -> dict[str, str]:
        """Every object, by its content; the lock and the lease of leaders aside."""
        keys = [meta.key for meta in self.store.list_after("") if "/lease" not in meta.key]
        return {key: sha256(self.store.get(key).data).hexdigest() for key in keys}

    def append(self, **changes: Any) -> None:
        """Add an entry, as a newer leader would that crashed before it published."""
        keys = [meta.key for meta in self.store.list_after(PATHS.ledger_prefix)]
        last = json.loads(self.store.get(keys[-1]).data)
        seq = last["body"]["seq"] + 1
        body: Body = {**last["body"], "seq": seq, "prev_hash": last["sha256"], "batches": []}
        body |= {"nonce": f"n{seq}", "ts": later(body["ts"]), **changes}
        _ = self.store.create(PATHS.ledger_entry(seq), sealed(body))

    def publish(self, **changes: Any) -> None:
        """Add a manifest, as a newer leader would."""
        keys = [meta.key for meta in self.store.list_after(PATHS.manifest_prefix)]
        last = json.loads(self.store.get([key for key in keys if "hint" not in key][-1]).data)
        v = last["body"]["v"] + 1
        body: Body = {**last["body"], "v": v, "prev_hash": last["sha256"]}
        body |= {"nonce": f"m{v}", "ts": later(body["ts"]), **changes}
        _ = self.store.create(PATHS.manifest(v), sealed(body))


def later(ts: str) -> str:
    return (datetime.fromisoformat(ts) + timedelta(seconds=1)).isoformat()


def sealed(body: Body) -> bytes:
    data = json.dumps(body, separators=(",", ":")).encode()
    return b'{"sha256":"%s","body":%s}' % (sha256(data).hexdigest().encode(), data)


@pytest.fixture
def newer(tmp_path: Path) -> Newer:
    (tmp_path / "assets.py").write_text(CODE)
    assert servo(tmp_path, "materialize", "assets.py").returncode == 0
    return Newer(tmp_path)


UNKNOWN_EVENT = {"id": "b", "events": [{"type": "MoonPhaseChanged", "v": 1}]}

NEEDS: dict[str, Callable[[Newer], None]] = {
    "an entry": lambda newer: newer.append(format=2, min_reader=2, min_servo="7.1.0"),
    "a fold": lambda newer: newer.append(fold_version=2, min_servo="7.1.0"),
    "an unknown shape": lambda newer: newer.append(min_reader=2, min_servo="7.1.0", batches="new"),
    "a manifest": lambda newer: newer.publish(format=2, min_leader=2, min_servo="7.1.0"),
}


@pytest.mark.parametrize("needs", NEEDS)
def test_who_does_not_understand_the_ledger_reads_and_does_not_lead(
    newer: Newer, needs: str
) -> None:
    NEEDS[needs](newer)
    before = newer.objects()
    for command in LEADING:
        done = newer.run(*command)
        assert (done.returncode, command) == (NEEDS_UPGRADE, command), done.stderr
        assert "upgrade to Servo 7.1.0 or later" in done.stderr
    assert newer.objects() == before, "nothing was written"
    for command in READING:
        done = newer.run(*command)
        assert (done.returncode, command) == (0, command), done.stdout + done.stderr


def test_the_status_says_that_only_a_newer_servo_can_lead(newer: Newer) -> None:
    newer.publish(format=2, min_leader=2, min_servo="7.1.0")
    assert "upgrade to Servo 7.1.0 or later" in newer.run("status").stdout


def test_an_unknown_event_in_an_entry_is_never_passed_by(newer: Newer) -> None:
    newer.append(batches=[UNKNOWN_EVENT])
    before = newer.objects()
    done = newer.run("materialize", "assets.py")
    assert done.returncode == NEEDS_UPGRADE
    assert "MoonPhaseChanged" in done.stderr
    assert newer.objects() == before


def test_tables_that_cannot_be_read_are_refused_to_everyone(newer: Newer) -> None:
    newer.publish(format=2, min_reader=2, min_servo="7.1.0", tables={"runs": "in another shape"})
    before = newer.objects()
    for command in [*LEADING, *READING]:
        done = newer.run(*command)
        assert (done.returncode, command) == (NEEDS_UPGRADE, command), done.stderr
        assert "upgrade to Servo 7.1.0 or later" in done.stderr
    assert newer.objects() == before


def test_what_a_newer_servo_added_without_need_is_ignored(newer: Newer) -> None:
    newer.append(format=2, moon="full")
    newer.publish(format=2, moon="full")
    for command in [("materialize", "assets.py"), ("status",), ("admin", "verify")]:
        done = newer.run(*command)
        assert (done.returncode, command) == (0, command), done.stdout + done.stderr
