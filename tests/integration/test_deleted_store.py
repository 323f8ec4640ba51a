"""A leader whose folder is deleted says so at once, whatever it was doing."""

import shutil
from pathlib import Path

import pytest

from servo.testing.machines import Gates, Machine

pytestmark = pytest.mark.slow

CORRUPT = 7
CODE = (
    Gates.CODE
    + """
from servo import asset

@asset
def gated():
    pass_gate("gated")
    return 1
"""
)


def test_a_run_whose_store_is_deleted_ends_within_seconds_and_says_why(
    tmp_path: Path, gates: Gates
) -> None:
    machine = Machine(tmp_path / "here", ".servo", CODE, GATES=str(gates.folder))
    with machine.start("materialize", "assets.py") as leader:
        gates.wait_for("gated")
        shutil.rmtree(machine.folder / ".servo")
        said = leader.ended(30)
    assert said.code == CORRUPT, said
    assert f"the folder {machine.folder / '.servo'} of the store was deleted" in said.err
    left = [path for path in (machine.folder / ".servo").rglob("*") if path.is_file()]
    assert left == [], "nothing begins anew in silence"
