"""The two shapes of what commands print for people: rows under headings, and facts.

A table never breaks a word. Where it is wider than the terminal, it first omits columns that are
empty, then wraps cells between words, then after the separators inside long names. If even that is
too wide, ids move to a line below their row, if the table says so, or each row becomes a list of
facts.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType
from rich.table import Table
from rich.text import Text

_WIDE_GAP = 3
_NARROW_GAP = 2
# Names such as default_automation_condition_sensor or shop/orders continue on the next line here.
_AFTER_SEPARATOR = re.compile(r"(?<=[_/,])(?=\w)")


class FittedColumn(NamedTuple):
    """One column of a grid."""

    name: str
    right: bool
    whole: bool
    below: bool = False


class FittedTable:
    """Rows under headings, laid out for the width of the console that prints them."""

    def __init__(self, columns: Sequence[FittedColumn]) -> None:
        self._columns = columns
        self._rows: list[list[Text]] = []

    def add_row(self, *cells: str | Text | None) -> None:
        """Add one cell for each column."""
        self._rows.append([cell if isinstance(cell, Text) else Text(cell or "") for cell in cells])

    @property
    def row_count(self) -> int:
        """How many rows it has."""
        return len(self._rows)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        """Yield the first layout that fits."""
        width = options.max_width
        everything = range(len(self._columns))
        filled = [at for at in everything if any(row[at].plain for row in self._rows)]
        if _total(self._natural(everything), _WIDE_GAP) <= width:
            yield self._table(everything, None)
        elif _total(self._natural(filled), _WIDE_GAP) <= width:
            yield self._table(filled, None)
        elif widths := self._wrapped(filled, width):
            yield self._table(filled, widths)
        elif lines := self._with_ids_below(filled, width):
            yield from lines
        else:
            yield from self._records()

    def _natural(self, chosen: Sequence[int]) -> list[int]:
        return [max(len(line) for line in self._lines(at)) for at in chosen]

    def _lines(self, at: int) -> Iterator[str]:
        yield self._columns[at].name
        for row in self._rows:
            yield from row[at].plain.splitlines()

    def _wrapped(self, chosen: Sequence[int], width: int) -> list[int]:
        """Widths of columns that wrap between words, or else inside names; empty if too wide."""
        most = self._natural(chosen)
        for names in (False, True):
            least = [
                full if self._columns[at].whole else self._longest_piece(at, names=names)
                for at, full in zip(chosen, most, strict=True)
            ]
            spare = width - _total(least, _NARROW_GAP)
            if spare >= 0:
                return _shared(least, most, spare)
        return []

    def _longest_piece(self, at: int, *, names: bool) -> int:
        words = [word for line in self._lines(at) for word in line.split()]
        pieces = [piece for word in words for piece in _pieces(word)] if names else words
        return max(len(piece) for piece in pieces)

    def _table(self, chosen: Sequence[int], widths: Sequence[int] | None) -> Table:
        table = headed(gap=_WIDE_GAP if widths is None else _NARROW_GAP)
        for place, at in enumerate(chosen):
            column = self._columns[at]
            width = None if widths is None else widths[place]
            table.add_column(column.name, justify="right" if column.right else "left", width=width)
        for row in self._rows:
            cells = [row[at] for at in chosen]
            table.add_row(*(cells if widths is None else map(_broken, cells, widths)))
        return table

    def _with_ids_below(self, chosen: Sequence[int], width: int) -> list[Text]:
        """Two lines a row, the second with its ids; empty if that is too wide, or has no ids."""
        above = [at for at in chosen if not self._columns[at].below]
        widths = dict(zip(above, self._natural(above), strict=True))
        ids = [self._ids_of(row) for row in self._rows]
        total = _total(list(widths.values()), _NARROW_GAP)
        if len(above) == len(chosen) or max(total, *(len(line) for line in ids)) > width:
            return []
        lines = [
            self._joined([Text(column.name) for column in self._columns], widths),
            Text("─" * total),
        ]
        lines[0].stylize("bold")
        for row, line in zip(self._rows, ids, strict=True):
            lines += [self._joined(row, widths), line]
        return lines

    def _ids_of(self, row: Sequence[Text]) -> Text:
        pairs = zip(self._columns, row, strict=True)
        shown = [f"{column.name} {cell.plain}" for column, cell in pairs if column.below]
        return Text(f"  {'  '.join(shown)}", "dim")

    def _joined(self, cells: Sequence[Text], widths: Mapping[int, int]) -> Text:
        """One line of cells, aligned as their columns are."""
        padded: list[Text] = []
        for at, width in widths.items():
            cell = cells[at].copy()
            cell.align("right" if self._columns[at].right else "left", width)
            padded.append(cell)
        return Text(" " * _NARROW_GAP).join(padded)

    def _records(self) -> Iterator[RenderableType]:
        for place, row in enumerate(self._rows):
            if place:
                yield ""
            table = facts()
            for column, cell in zip(self._columns, row, strict=True):
                if cell.plain:
                    table.add_row(column.name, cell)
            yield table


def grid(
    *names: str, left: int | None = None, whole: int = 0, ids: Collection[str] = ()
) -> FittedTable:
    """Rows under headings.

    Columns after the first `left` are numbers, aligned to the right. The first `whole` are never
    broken into lines, because people copy them. Columns of `ids` move to a line below their row
    where the table is too wide.
    """
    return FittedTable(
        [
            FittedColumn(
                name,
                right=left is not None and place >= left,
                whole=place < whole,
                below=name in ids,
            )
            for place, name in enumerate(names)
        ]
    )


def headed(*, gap: int = _WIDE_GAP) -> Table:
    """An empty table with a line below its headings and `gap` spaces between its columns."""
    # The box separates columns by one space; the rest is padding.
    return Table(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1) if gap == _WIDE_GAP else (0, 1, 0, 0),
        header_style="bold",
    )


def facts() -> Table:
    """Names and what they are, one a line."""
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    return table


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _shared(least: Sequence[int], most: Sequence[int], spare: int) -> list[int]:
    """Widths between `least` and `most`: columns that lack little are filled up first."""
    widths = list(least)
    by_need = sorted(range(len(widths)), key=lambda at: most[at] - least[at])
    for done, at in enumerate(by_need):
        extra = min(most[at] - least[at], spare // (len(by_need) - done))
        widths[at] += extra
        spare -= extra
    return widths


def _pieces(word: str) -> list[str]:
    return _AFTER_SEPARATOR.split(word)


def _broken(cell: Text, width: int) -> Text:
    """The cell with line breaks inside names that are longer than the column is wide."""
    if all(len(word) <= width for word in cell.plain.split()):
        return cell
    lines: list[str] = []
    for word in cell.plain.split():
        for place, piece in enumerate(_pieces(word)):
            joint = "" if place else " "
            if lines and len(lines[-1] + joint + piece) <= width:
                lines[-1] += joint + piece
            else:
                lines.append(piece)
    return Text("\n".join(lines), style=cell.style)
