"""Mutants: one source file each, changed in one place."""

import ast
import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

BETWEEN = " ,\n"
"""What separates arguments; it goes with one that is removed, and is no change by itself."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The characters from `start` to `end` of a source become `now`."""

    start: int
    end: int
    now: str

    def applied(self, source: str) -> str:
        """The changed source."""
        return source[: self.start] + self.now + source[self.end :]


class Mutant(msgspec.Struct, frozen=True, kw_only=True):
    """A change, told so that it is recognised when the lines above it have moved."""

    path: str
    """From src/servo on."""
    scope: str
    """The class and function that is changed; empty at the top of a module."""
    was: str
    now: str
    """The changed lines, without their indentation."""
    again: int = 0
    """How often the same lines were changed in the same way further up in the same scope."""
    line: int
    last_line: int
    change: Change

    @property
    def package(self) -> str:
        """The first folder of its path."""
        return self.path.split("/")[0]

    @property
    def name(self) -> str:
        """Short, and the same as long as what is changed is the same."""
        told = "\0".join((self.path, self.scope, self.was, self.now, str(self.again)))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def diff(self) -> str:
        """What a person reads."""
        removed = "".join(f"\n  - {line}" for line in self.was.splitlines())
        added = "".join(f"\n  + {line}" for line in self.now.splitlines())
        return f"{self.path}:{self.line} {self.scope}{removed}{added}"


def smallest(source: str, change: Change) -> Change:
    """The same change without the words that it leaves as they were at either end."""
    was, now = source[change.start : change.end], change.now
    ahead = _alike(was, now)
    while ahead and _is_inside_word(was, now, ahead):
        ahead -= 1
    was, now = was[ahead:], now[ahead:]
    behind = _alike(was[::-1], now[::-1])
    while behind and _is_inside_word(was[::-1], now[::-1], behind):
        behind -= 1
    start, end = change.start + ahead, change.end - behind
    return Change(start=start, end=end, now=now[: len(now) - behind])


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    differing = (at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(differing, min(len(one), len(other)))


def _is_inside_word(one: str, other: str, at: int) -> bool:
    return one[at - 1].isalnum() and (one[at : at + 1].isalnum() or other[at : at + 1].isalnum())


def touched(source: str, change: Change) -> tuple[int, int]:
    """The characters that a smallest change is about: without commas and blanks around them."""
    was = source[change.start : change.end]
    if not was.strip(BETWEEN):
        return change.start, change.end
    start = change.start + len(was) - len(was.lstrip(BETWEEN))
    return start, change.end - (len(was) - len(was.rstrip(BETWEEN)))


def mutants(path: str, source: str, changes: Iterable[Change]) -> Iterator[Mutant]:
    """The mutants that these changes make of a file."""
    scopes = _scopes(source)
    seen = Counter[tuple[str, str, str]]()
    for given in changes:
        change = smallest(source, given)
        if change.start == change.end and not change.now:
            continue
        start, end = touched(source, change)
        line, last = source.count("\n", 0, start) + 1, source.count("\n", 0, end) + 1
        scope = max((s for s in scopes if s[0] <= line <= s[1]), default=(0, 0, ""))[2]
        was, now = _lines(source, change)
        key = (scope, was, now)
        yield Mutant(
            path=path,
            scope=scope,
            was=was,
            now=now,
            again=seen[key],
            line=line,
            last_line=last,
            change=change,
        )
        seen[key] += 1


def _lines(source: str, change: Change) -> tuple[str, str]:
    begin = source.rfind("\n", 0, change.start) + 1
    end = source.find("\n", change.end)
    end = len(source) if end < 0 else end
    was = _unindented(source[begin:end])
    now = _unindented(source[begin : change.start] + change.now + source[change.end : end])
    while was and now and was[0] == now[0]:
        was, now = was[1:], now[1:]
    while was and now and was[-1] == now[-1]:
        was, now = was[:-1], now[:-1]
    return "\n".join(was), "\n".join(now)


def _unindented(lines: str) -> list[str]:
    return [line.strip() for line in lines.splitlines() if line.strip()]


def _scopes(source: str) -> list[tuple[int, int, str]]:
    """The first line, the last line and the name of every class and function."""
    found: list[tuple[int, int, str]] = []

    def visit(node: ast.AST, names: tuple[str, ...]) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                inner = (*names, child.name)
                first = min([child.lineno, *(d.lineno for d in child.decorator_list)])
                found.append((first, child.end_lineno or child.lineno, ".".join(inner)))
                visit(child, inner)
            else:
                visit(child, names)

    visit(ast.parse(source), ())
    return found
