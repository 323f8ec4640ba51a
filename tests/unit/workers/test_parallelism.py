"""How much the configuration of a run lets run at once."""

from typing import Any

import pytest

from servo.errors import Invalid
from servo.workers.parallelism import parallelism


@pytest.mark.parametrize(
    ("execution", "expected"),
    [
        (None, 4),
        ({}, 4),
        ({"config": {"multiprocess": {"max_concurrent": 3}}}, 3),
        ({"config": {"max_concurrent": 2}}, 2),
        ({"multiprocess": {"config": {"max_concurrent": 2}}}, 2),
        ({"config": {"max_concurrent": 0}}, 4),
        ({"config": {"max_concurrent": 9}}, 4),
        ({"config": {"in_process": {}}}, 1),
        ({"in_process": {}}, 1),
    ],
)
def test_the_execution_section_says_how_much_runs_at_once(execution: Any, expected: int) -> None:
    assert parallelism({"execution": execution}, 4) == expected


@pytest.mark.parametrize("wrong", ["two", -1, 1.5])
def test_what_is_no_number_is_refused(wrong: Any) -> None:
    with pytest.raises(Invalid, match="max_concurrent"):
        parallelism({"execution": {"config": {"max_concurrent": wrong}}}, 4)
