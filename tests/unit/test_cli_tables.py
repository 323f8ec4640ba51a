"""Tables fit the terminal, and never break a word."""

from io import StringIO

import pytest
from rich.console import Console

from servo.cli.rendering.tables import FittedTable, grid

SENSOR = "default_automation_condition_sensor"


def _printed(table: FittedTable, width: int) -> list[str]:
    out = StringIO()
    Console(file=out, width=width, markup=False, highlight=False).print(table)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def _sensors() -> FittedTable:
    table = grid("sensor", "target", "last evaluated", "note", whole=1)
    table.add_row(SENSOR, "everything that has a condition", "2026-11-16 11:05:22Z", "")
    table.add_row("files", "shop/orders_from_the_shop", "2026-11-16 11:05:22Z", None)
    return table


def test_a_table_that_fits_has_every_column() -> None:
    table = grid("lane", "weight", "note", left=1, whole=1)
    table.add_row("interactive", "800", "")
    assert _printed(table, 80) == [
        "lane          weight   note",
        "───────────────────────────",
        "interactive      800",
    ]


def test_a_table_too_wide_for_the_terminal_omits_empty_columns_and_wraps_between_words() -> None:
    assert _printed(_sensors(), 80) == [
        "                                                                   last",
        "sensor                               target                        evaluated",
        "─" * 80,
        "default_automation_condition_sensor  everything that has a         2026-11-16",
        "                                     condition                     11:05:22Z",
        "files                                shop/orders_from_the_shop     2026-11-16",
        "                                                                   11:05:22Z",
    ]


def test_a_long_name_continues_on_the_next_line_after_a_separator() -> None:
    assert _printed(_sensors(), 64) == [
        "                                                    last",
        "sensor                               target         evaluated",
        "─" * 64,
        "default_automation_condition_sensor  everything     2026-11-16",
        "                                     that has a     11:05:22Z",
        "                                     condition",
        "files                                shop/orders_   2026-11-16",
        "                                     from_the_shop  11:05:22Z",
    ]


def test_rows_become_facts_where_even_wrapped_cells_are_too_wide() -> None:
    assert _printed(_sensors(), 52) == [
        "sensor          default_automation_condition_sensor",
        "target          everything that has a condition",
        "last evaluated  2026-11-16 11:05:22Z",
        "",
        "sensor          files",
        "target          shop/orders_from_the_shop",
        "last evaluated  2026-11-16 11:05:22Z",
    ]


@pytest.mark.parametrize("width", range(20, 140))
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in _printed(_sensors(), width))


def _outputs() -> FittedTable:
    table = grid("output", "partition", "created", "status", "run", ids=("output", "run"))
    table.add_row("x8af31e0b9ae5a85da8e8", "2024-01-03", "2026-11-16 14:59:05Z", "latest", RUN)
    table.add_row("x204874ef8cfe11a618cd", "2024-01-02", "2026-11-16 14:58:57Z", "promoted", RUN)
    return table


RUN = "run_6hu2th3hw5gegg3qquu7qohhr4"


def test_ids_move_below_their_row_where_the_table_is_too_wide() -> None:
    assert _printed(_outputs(), 70) == [
        "partition   created               status",
        "──────────────────────────────────────────",
        "2024-01-03  2026-11-16 14:59:05Z  latest",
        f"  output x8af31e0b9ae5a85da8e8  run {RUN}",
        "2024-01-02  2026-11-16 14:58:57Z  promoted",
        f"  output x204874ef8cfe11a618cd  run {RUN}",
    ]
    assert _printed(_outputs(), 120)[0].split() == [
        "output",
        "partition",
        "created",
        "status",
        "run",
    ]


def test_ids_that_do_not_fit_on_a_line_make_a_list_of_facts() -> None:
    assert [line.split()[0] for line in _printed(_outputs(), 45)[:5]] == [
        "output",
        "partition",
        "created",
        "status",
        "run",
    ]
