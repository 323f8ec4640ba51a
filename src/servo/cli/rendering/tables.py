"""The two shapes of what commands print for people: rows under headings, and facts."""

from rich import box
from rich.table import Table


def grid(*names: str, left: int | None = None, whole: int = 0) -> Table:
    """Rows under headings.

    Columns after the first `left` are numbers, and stand right. The first `whole` are never broken
    into lines, because people copy them.
    """
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for place, name in enumerate(names):
        numbers = left is not None and place >= left
        table.add_column(
            name, justify="right" if numbers else "left", no_wrap=place < whole, overflow="fold"
        )
    return table


def facts() -> Table:
    """Names and what they are, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    return table
