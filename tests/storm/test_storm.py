"""A short storm; `make storm` makes a long one."""

from pathlib import Path

import pytest

from tests.storm.judging import judge
from tests.storm.storm import Storm


@pytest.mark.slow
@pytest.mark.kill
def test_nothing_is_lost_doubled_or_left_waiting(tmp_path: Path) -> None:
    with Storm(tmp_path, str(tmp_path / "store"), seed=1) as storm:
        storm.rage(25)
        assert judge(storm) == []
