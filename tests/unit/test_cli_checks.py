"""Commands that tell which checks failed, and what they said."""

from pathlib import Path

import pytest

from servo import asset, checks, materialize
from servo.cli.commands.materialize import tell
from servo.cli.main import run
from servo.cli.options.workspace import Where
from servo.cli.rendering.run_display import MAX_CHECKS, Ended


@asset(quarantine=True)
def orders() -> list[dict[str, int]]:
    return [{"id": 1, "amount": -5}, {"id": 1, "amount": 7}]


FAIL = [
    checks.unique(orders, "id"),
    checks.row_count(orders, max=1, severity="WARN"),
    checks.sql(orders, "select min(amount) > 0 from orders", blocking=True),
    checks.not_null(orders, "id"),
]
TOLD = [
    "  check row_count of orders failed (warn): 2 rows: more than 1",
    "  check sql of orders failed (error, blocking): the query returned no",
    "  check unique_id of orders failed (error): duplicate id in 1 of 2 rows",
]


def test_a_run_tells_every_check_that_failed_whatever_follows_from_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = materialize([orders, *FAIL], store=str(tmp_path))
    place = ["--store", str(tmp_path)]
    assert run(["run", "show", made.run_id, *place]) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == TOLD
    where = Where(store=str(tmp_path), tenant="default", workspace="default")
    assert tell(Ended(run=made.run, tasks=[], seconds=0.1), where, json_=False) == 0
    assert capsys.readouterr().out.splitlines()[-3:] == TOLD
    assert run(["quarantine", "list", *place]) == 0
    told = capsys.readouterr().out
    assert "sql: the query returned no; unique_id: duplicate id in 1 of 2 rows\n" in told
    assert "row_count" not in told, "a warning holds nothing back"


def test_of_many_checks_that_failed_the_rest_is_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    many = [checks.row_count(orders, max=1, name=f"c{n:02}") for n in range(MAX_CHECKS + 2)]
    made = materialize([orders, *many], store=str(tmp_path))
    assert run(["run", "show", made.run_id, "--store", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "  and 2 more checks that failed"
