"""What commands print for people: lines that fit a terminal, commands that can be pasted."""

import shlex
from datetime import UTC, datetime

import pytest

from servo.cli.rendering.output import wrapped
from servo.cli.rendering.run_display import to_look_at
from servo.core.partitions import PartitionKey
from servo.core.state.rows.assets import MaterializationRow


def test_lines_are_broken_between_words() -> None:
    text = "these assets are partitioned, but no partition was given: orders; pass one"
    assert wrapped(text, 40, taken=7).split("\n") == [
        "these assets are partitioned, but",
        "no partition was given: orders; pass one",
    ]


def test_a_command_stays_in_one_line_and_so_does_a_long_word() -> None:
    text = f"see `servo run show run_1 --as-of 17` in {'x' * 30} or nowhere"
    assert wrapped(text, 20).split("\n") == [
        "see",
        "`servo run show run_1 --as-of 17`",
        "in",
        "x" * 30,
        "or nowhere",
    ]


def test_lines_of_code_and_lines_that_fit_are_kept() -> None:
    code = "    orders and not and no such thing\n    ^"
    assert wrapped(f"cannot be read:\n{code}", 20) == f"cannot be read:\n{code}"
    assert wrapped("two  spaces", 20) == "two  spaces"


WEST = PartitionKey.single("eu west").canonical()


def output(asset_key: str, partition_key: str | None = None) -> MaterializationRow:
    return MaterializationRow(
        row_version=1,
        materialization_id="x1",
        asset_key=asset_key,
        partition_key=partition_key,
        run_id="run_1",
        task_key="t",
        attempt=1,
        exec_id="x1",
        output_format="json",
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        created_seq=1,
    )


@pytest.mark.parametrize(
    ("made", "show", "query"),
    [
        (output("orders"), "orders", "from data.orders"),
        (output("shop/ä b"), "shop/ä b", 'from data."shop/ä b"'),
        (output("it's"), "it's", 'from data."it\'s"'),
        (output("orders", WEST), "orders[eu west]", "from data.orders"),
    ],
)
def test_the_next_commands_can_be_pasted(made: MaterializationRow, show: str, query: str) -> None:
    first, second = to_look_at([made]).strip("`").split("` or `")
    assert shlex.split(first) == ["servo", "asset", "show", show]
    assert shlex.split(second) == ["servo", "sql", query]
