"""Is everything described that exists, and does everything exist that is described?

Each check compares a part of the code with a page, word for word, and yields what differs.
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec
from checks.markdown import Docs, Document, Section, plain
from checks.types import column_types, field_defaults, field_types, nested_types

from servo.config import WORKER_VARIABLES, Settings
from servo.core import fold
from servo.core.events.envelope import (
    Answer,
    Batch,
    Encoding,
    Entry,
    Event,
    EventKind,
    Original,
    Status,
    Verdict,
    WaitsUntil,
)
from servo.core.events.registry import EVENTS
from servo.core.manifest import FileEntry, Manifest, ObjectRef, TableFiles, Tier
from servo.core.state import states
from servo.core.state.tables import TABLES
from servo.ledger.segment import Header

REPOSITORY = Path(__file__).parents[2]
EVERYWHERE = ("tenant_id", "workspace_id", "row_version")

_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000), ("ms", 1))
_TABLE_NAME = re.compile(r"[a-z][a-z_]*")
_TYPE_NAME = re.compile(r"[A-Z]\w+")


def events(docs: Docs) -> Iterator[str]:
    """Every event and everything inside one: fields, types, defaults, kinds, values."""
    page = docs["reference/events.md"]
    inside = nested_types(list(EVENTS.values()))
    del inside[EventKind.__name__]
    expected = {**EVENTS, **inside}
    yield from _headings(page, _TYPE_NAME, expected)
    for name, kind in expected.items():
        section = page.section(name)
        yield from _members(page, section, kind)
        if name in EVENTS and f"\nKind: {EVENTS[name].KIND}.\n" not in section.text:
            yield f"{page.name}: {name} is not called the kind it is, {EVENTS[name].KIND}"


def refusals(docs: Docs) -> Iterator[str]:
    """Every reason for which the fold refuses, by its beginning."""
    page = docs["reference/events.md"]
    for path in sorted(Path(fold.__path__[0]).glob("*.py")):
        for reason in _reasons(ast.parse(path.read_text())):
            if reason not in page.prose:
                yield f"{page.name}: the refusal {reason!r} of fold/{path.name} is not described"


def _reasons(tree: ast.AST) -> Iterator[str]:
    """What `Rejected` is raised with, up to the first colon or the first value filled in."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Rejected":
            first = node.args[0]
            text = first.values[0] if isinstance(first, ast.JoinedStr) else first
            if isinstance(text, ast.Constant):
                yield str(text.value).partition(":")[0].strip()


def tables(docs: Docs) -> Iterator[str]:
    """Every table and column, with keys, residencies, types, and the states they may hold."""
    page = docs["reference/tables.md"]
    sets = {name: kind for name, kind in vars(states).items() if _is_closed_set(kind)}
    yield from _headings(page, _TABLE_NAME, TABLES)
    yield from _headings(page, _TYPE_NAME, sets)
    for name, kind in sets.items():
        yield from _members(page, page.section(name), kind)
    for spec in TABLES.values():
        section, types = page.section(spec.name), column_types(spec)
        common = page.section("Columns of every table")
        shared = {name: types.pop(name) for name in EVERYWHERE}
        yield from _compare(page, spec.name, types, _described(section, 2))
        yield from _compare(page, common.title, shared, _described(common, 2))
        keys = ", ".join(f"`{key}`" for key in spec.key)
        if f"Primary key: {keys}. Residency: {spec.residency}.\n" not in section.text:
            yield f"{page.name}: {spec.name} has the key {keys} and the residency {spec.residency}"
    yield from _overview(docs)


def _overview(docs: Docs) -> Iterator[str]:
    """Every table stands in the short list of the guide."""
    page = docs["how-to/sql.md"]
    rows = page.section("The tables").rows()
    listed = {name: "" for row in rows for name in re.findall(r"`(\w+)`", row[0])}
    yield from _compare(page, "The tables", dict.fromkeys(TABLES, ""), listed)


def objects(docs: Docs) -> Iterator[str]:
    """Every field of what is stored besides events and rows."""
    ledger, manifest = docs["reference/ledger.md"], docs["reference/manifest.md"]
    stored: list[tuple[Document, str, type[Any]]] = [
        (ledger, "Entries", Entry),
        (ledger, "Batches", Batch),
        (ledger, "Verdict", Verdict),
        (ledger, "Original", Original),
        (ledger, "Encoding", Encoding),
        (ledger, "WaitsUntil", WaitsUntil),
        (ledger, "Answers", Answer),
        (ledger, "Status", Status),
        (ledger, "The archive", Header),
        (manifest, "Fields", Manifest),
        (manifest, "TableFiles", TableFiles),
        (manifest, "FileEntry", FileEntry),
        (manifest, "ObjectRef", ObjectRef),
        (manifest, "Tier", Tier),
    ]
    for page, title, kind in stored:
        yield from _members(page, page.section(title), kind)


def settings(docs: Docs) -> Iterator[str]:
    """Every setting with its default."""
    page = docs["reference/settings.md"]
    expected = {field.name: _shown(field.default) for field in msgspec.structs.fields(Settings)}
    yield from _compare(page, "Settings", expected, _described(page.section("Settings"), 2))
    named = dict(WORKER_VARIABLES)
    section = page.section("Worker processes")
    yield from _compare(page, "Worker processes", named, _described(section, 2))


def bugs(docs: Docs) -> Iterator[str]:
    """Every planted bug, with the sentence that says what is wrong."""
    page = docs["development.md"]
    expected = {name: bug.what for name, bug in _planted_bugs().items()}
    yield from _compare(page, "Planted bugs", expected, _described(page.section("Planted bugs"), 2))


def _planted_bugs() -> Mapping[str, Any]:
    """The simulation is a part of the repository and not of the package."""
    if str(REPOSITORY) not in sys.path:
        sys.path.append(str(REPOSITORY))
    return import_module("simulation.bugs").BUGS


def verbs(docs: Docs) -> Iterator[str]:
    """Every verb of the Makefile."""
    page = docs["development.md"]
    listed = [plain(row[0]).removeprefix("make ") for row in page.section("Make targets").rows()]
    yield from _compare(
        page, "Make targets", dict.fromkeys(make_verbs(), ""), dict.fromkeys(listed, "")
    )


def make_verbs() -> list[str]:
    """The targets that people call."""
    text = (REPOSITORY / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)
    return phony[1].split() if phony else []


# --- comparing ------------------------------------------------------------------------------------


def _members(page: Document, section: Section, kind: type[Any]) -> Iterator[str]:
    """The fields of a struct with types and defaults, or the values of a closed set."""
    if issubclass(kind, StrEnum):
        expected = dict.fromkeys([member.value for member in kind], "")
        yield from _compare(page, section.title, expected, _described(section, 1))
        return
    defaults = field_defaults(kind)
    fields = {name: f"{held}, {defaults[name]}" for name, held in field_types(kind).items()}
    if issubclass(kind, Event):
        del fields["v"]  # said once for all of them
    yield from _compare(page, section.title, fields, _described(section, 3))


def _described(section: Section, cells: int) -> dict[str, str]:
    """What a section's tables say: the first cell, and those after it up to `cells`."""
    rows = section.rows()
    return {plain(row[0]): ", ".join(plain(cell) for cell in row[1:cells]) for row in rows}


def _compare(
    page: Document, title: str, code: Mapping[str, str], text: Mapping[str, str]
) -> Iterator[str]:
    for name, value in code.items():
        if name not in text:
            yield f"{page.name}: {title} does not describe {name}"
        elif text[name] != value:
            yield f"{page.name}: {title}: {name} is {value!r} and not {text[name]!r}"
    for name in text:
        if name not in code:
            yield f"{page.name}: {title} describes {name}, which does not exist"


def _headings(
    page: Document, form: re.Pattern[str], expected: Mapping[str, object]
) -> Iterator[str]:
    titles = [section.title for section in page.sections() if section.level > 2]
    found = [title for title in titles if form.fullmatch(title)]
    yield from (f"{page.name} does not describe {name}" for name in expected if name not in found)
    unknown = (name for name in found if name not in expected)
    yield from (f"{page.name} describes {name}, which does not exist" for name in unknown)


def _is_closed_set(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum) and kind is not StrEnum


def _shown(value: object) -> str:
    if not isinstance(value, timedelta):
        return f"{value:,}"
    count = value // timedelta(milliseconds=1)
    unit, size = next(pair for pair in _UNITS if count % pair[1] == 0)
    return f"{count // size} {unit}"
