"""Projections as plain values, to be compared row for row.

Two projections are equal when every table has the same rows; where rows were stored, in which file
or in which order, is not part of that. `differences` says what differs in words, a few rows of it.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import msgspec

from servo.core.state import derived
from servo.core.state.rows.row import Row
from servo.core.state.state import State, folded_tables
from servo.core.state.tables import TABLES, TableSpec
from servo.projection.files.schema import key_parts

Plain = dict[str, Any]
Dump = dict[str, list[Plain]]

_SPEC_OF: Mapping[type[Row], TableSpec] = {spec.row: spec for spec in TABLES.values()}


def canonical_rows(rows: Iterable[Row]) -> list[Plain]:
    """Rows of one table as plain objects, sorted by primary key."""
    held = list(rows)
    if held:
        held.sort(key=key_parts(_SPEC_OF[type(held[0])]))
    return [msgspec.to_builtins(row) for row in held]


def dump(state: State) -> Dump:
    """Every folded table of a state, as far as it is in memory."""
    return {name: canonical_rows(derived.rows(state, name)) for name in folded_tables()}


def differences(left: Dump, right: Dump, *, limit: int = 20) -> list[str]:
    """What `left` and `right` do not have in common, a line each; empty if they are equal."""
    return list(islice(_differences(left, right), limit))


def _differences(left: Dump, right: Dump) -> Iterator[str]:
    for name in dict.fromkeys([*left, *right]):
        ours, theirs = _by_key(name, left), _by_key(name, right)
        for key in dict.fromkeys([*ours, *theirs]):
            if key not in theirs:
                yield f"{name} {key}: only on the left"
            elif key not in ours:
                yield f"{name} {key}: only on the right"
            elif ours[key] != theirs[key]:
                yield f"{name} {key}: {_fields(ours[key], theirs[key])}"


def _by_key(name: str, held: Dump) -> dict[tuple[Any, ...], Plain]:
    columns = TABLES[name].key
    return {tuple([row[column] for column in columns]): row for row in held.get(name, ())}


def _fields(ours: Plain, theirs: Plain) -> str:
    names = [name for name in dict.fromkeys([*ours, *theirs]) if ours.get(name) != theirs.get(name)]
    return ", ".join(f"{name} {ours.get(name)!r} != {theirs.get(name)!r}" for name in names)
