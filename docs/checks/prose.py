"""Do links lead somewhere, are decisions on record, and does everything that is named exist?"""

import ast
import builtins
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from checks.markdown import Docs, Document
from checks.reference import REPOSITORY
from checks.types import column_types

from servo.core.state.tables import TABLES

SECTIONS = ["Status", "Context", "Decision", "Consequences", "Rejected alternatives"]
SOURCES = ("src", "simulation")
STATUSES = ("Proposed", "Accepted", "Superseded")

_CLASS = re.compile(r"[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)*")
_MEMBER = re.compile(r"([A-Z][A-Za-z0-9]+)\.(\w+)")
_COLUMN = re.compile(r"([a-z_]+)\.([a-z_]+)")
_WORD = re.compile(r"_?[a-z][a-z0-9]*(?:_[a-z0-9]+)+|[A-Z]{2,}(?:_[A-Z]+)*")
_TEST = re.compile(r"(tests/[\w/]+\.py)(?:::(\w+))?")
_RECORD = re.compile(r"(\d{4})-[a-z-]+\.md")


def links(docs: Docs) -> Iterator[str]:
    """Every link in the repository leads to a file, and to a heading if it names one.

    Every page is linked from the first page, or from the README of its folder.
    """
    for document in docs:
        for link in document.links():
            target, _, anchor = link.partition("#")
            if "://" in link or link.startswith("mailto:"):
                continue
            path = (document.path.parent / target).resolve() if target else document.path
            if not path.exists() and not _elsewhere(docs, path).exists():
                yield f"{document.name}: {link} leads nowhere"
            elif anchor and anchor not in Document(path, link).anchors():
                yield f"{document.name}: {link} names no heading"
    yield from _unlisted(docs)


def _unlisted(docs: Docs) -> Iterator[str]:
    """Pages that nobody finds: neither the first page nor the README of their folder links them."""
    for document in docs:
        near = document.path.with_name("README.md").relative_to(docs.root).as_posix()
        names = [name for name in ("docs/README.md", near) if name in docs.documents]
        indexes = [docs.documents[name] for name in names]
        listed = {(page.path.parent / link).resolve() for page in indexes for link in page.links()}
        if document.path.name != "README.md" and document.path.resolve() not in listed:
            yield f"{names[-1]} does not list {document.name}"


def _elsewhere(docs: Docs, path: Path) -> Path:
    """The same file in the repository, for a copy that holds the documents only."""
    within = path.is_relative_to(docs.root.resolve())
    return REPOSITORY / path.relative_to(docs.root.resolve()) if within else path


def decisions(docs: Docs) -> Iterator[str]:
    """Every record has its sections and stands in the index under its title and status."""
    index = docs["adr/README.md"]
    rows = [row for section in index.sections() for row in section.rows()]
    listed = {row[1]: row for row in rows}
    records = [document for document in docs if _RECORD.fullmatch(document.path.name)]
    for position, document in enumerate(records, start=1):
        yield from _record_faults(document, position)
        number, _, title = document.sections()[0].title.partition(". ")
        row = listed.pop(f"[{title}]({document.path.name})", None)
        status = document.section("Status").text.strip().partition(".")[0]
        if row is None:
            yield f"{index.name} does not list {document.path.name} as {title!r}"
        elif [row[0], row[2]] != [number, status]:
            yield f"{index.name}: decision {number} is {status}"
    yield from (f"{index.name} lists {entry}, which does not exist" for entry in listed)


def _record_faults(document: Document, position: int) -> Iterator[str]:
    first, *others = document.sections()
    if [section.title for section in others] != SECTIONS:
        yield f"{document.name} has not the sections {', '.join(SECTIONS)}"
    if not first.title.startswith(f"{position}. ") or int(document.path.name[:4]) != position:
        yield f"{document.name} is not number {position}, by its name and its title"
    if not document.section("Status").text.strip().startswith(STATUSES):
        yield f"{document.name} has none of the statuses {', '.join(STATUSES)}"


def names(docs: Docs) -> Iterator[str]:
    """Whatever stands in code quotes and looks like a name of ours is one."""
    for document in docs:
        for span in dict.fromkeys(document.spans()):
            fault = _fault(span)
            if fault:
                yield f"{document.name}: {fault}"


def _fault(span: str) -> str:
    span = span.partition("(")[0]
    if test := _TEST.fullmatch(span):
        known = not test[2] or test[2] in _functions(test[1])
        return "" if known else f"there is no test {span}"
    if member := _MEMBER.fullmatch(span):
        known = member[2] in _classes().get(member[1], ())
        return "" if known else f"there is no {span}"
    if (column := _COLUMN.fullmatch(span)) and column[1] in TABLES and column[2] != "py":
        known = column[2] in column_types(TABLES[column[1]])
        return "" if known else f"there is no column {span}"
    if _CLASS.fullmatch(span):
        known = span in _classes() or span in _texts() or hasattr(builtins, span)
        return "" if known else f"there is no class {span}"
    return "" if not _WORD.fullmatch(span) or span in _words() else f"nothing is called {span}"


@cache
def _trees() -> list[ast.Module]:
    """The package, and the simulation beside it."""
    files = [path for folder in SOURCES for path in sorted((REPOSITORY / folder).rglob("*.py"))]
    return [ast.parse(path.read_text()) for path in files]


@cache
def _classes() -> dict[str, set[str]]:
    """Every class of the sources with what it defines."""
    found: dict[str, set[str]] = {}
    for tree in _trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                found.setdefault(node.name, set()).update(_members(node))
    return found


def _members(node: ast.ClassDef) -> Iterator[str]:
    """Methods, and what is assigned in the body: fields, members of a closed set."""
    for item in node.body:
        if isinstance(item, ast.FunctionDef):
            yield item.name
        targets = item.targets if isinstance(item, ast.Assign) else ()
        yield from (target.id for target in targets if isinstance(target, ast.Name))


@cache
def _texts() -> set[str]:
    """Every text that stands in the sources by itself, such as the code of an error."""
    nodes = (node for tree in _trees() for node in ast.walk(tree))
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@cache
def _functions(path: str) -> set[str]:
    file = REPOSITORY / path
    tree = ast.parse(file.read_text()) if file.exists() else ast.Module([], [])
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


@cache
def _words() -> set[str]:
    """Every word of the sources and of the benchmarks."""
    files = [
        path for folder in (*SOURCES, "benchmarks") for path in (REPOSITORY / folder).rglob("*.py")
    ]
    return {word for path in files for word in re.findall(r"\w+", path.read_text())}
