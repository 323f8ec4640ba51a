"""The documents, taken apart as far as the checks need: sections, tables, code, links.

This reads the Markdown that this repository writes and no other: headings with `#`, tables with a
pipe at both ends, fenced blocks, and a comment in the line before a fence that says what it is.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_HEADING = re.compile(r"(#{1,4}) (.+)")
_FENCE = re.compile(
    r"(?:<!-- (?P<mark>[^>]*) -->\n)?```(?P<language>\w*)\n(?P<text>.*?)```", re.DOTALL
)
_SPAN = re.compile(r"`([^`\n]+)`")
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


class Fence(NamedTuple):
    """A block of code; `mark` is what the comment before it says."""

    language: str
    mark: str
    text: str


class Section(NamedTuple):
    """What stands under one heading, up to the next one of any level."""

    title: str
    level: int
    text: str

    def rows(self) -> list[list[str]]:
        """The rows of its tables, cell by cell, without their heads."""
        return [row for table in _tables(self.text) for row in table[2:]]


class Document:
    """One Markdown file."""

    def __init__(self, path: Path, name: str) -> None:
        self.path = path
        self.name = name
        self.text = path.read_text()
        self.prose = _COMMENT.sub("", _FENCE.sub("", self.text))

    def sections(self) -> list[Section]:
        found: list[Section] = []
        for line in self.prose.splitlines():
            heading = _HEADING.fullmatch(line)
            if heading is not None:
                found.append(Section(heading[2], len(heading[1]), ""))
            elif found:
                last = found[-1]
                found[-1] = last._replace(text=f"{last.text}{line}\n")
        return found

    def section(self, title: str) -> Section:
        """The section of this title; an empty one if there is none."""
        held = (section for section in self.sections() if section.title == title)
        return next(held, Section(title, 0, ""))

    def fences(self, language: str) -> list[Fence]:
        found = _FENCE.finditer(self.text)
        fences = [Fence(m["language"], m["mark"] or "", m["text"]) for m in found]
        return [fence for fence in fences if fence.language == language]

    def spans(self) -> list[str]:
        """Everything in code quotes, outside of blocks."""
        return _SPAN.findall(self.prose)

    def links(self) -> list[str]:
        return _LINK.findall(_SPAN.sub("", self.prose))

    def anchors(self) -> set[str]:
        return {slug(section.title) for section in self.sections()}


class Docs:
    """The README and everything under `docs/`, in a checkout or in a copy of one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        paths = [root / "README.md", *sorted((root / "docs").rglob("*.md"))]
        found = [Document(path, path.relative_to(root).as_posix()) for path in paths]
        self.documents = {document.name: document for document in found}

    def __iter__(self) -> Iterator[Document]:
        return iter(self.documents.values())

    def __getitem__(self, name: str) -> Document:
        return self.documents[f"docs/{name}"]


def slug(title: str) -> str:
    """The anchor of a heading, as code hosts make them."""
    text = _LINK.sub("", title).replace("`", "").lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def plain(cell: str) -> str:
    """A cell without the code quotes around it."""
    return cell[1:-1] if len(cell) > 1 and cell[0] == cell[-1] == "`" else cell


def _tables(text: str) -> Iterator[list[list[str]]]:
    table: list[list[str]] = []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            table.append([cell.strip() for cell in line[1:-1].split("|")])
        elif table:
            yield table
            table = []
