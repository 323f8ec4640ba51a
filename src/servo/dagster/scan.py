"""Find unsupported names of Dagster in a file before importing it.

All uses are reported at once, with name, file and line, including those in the project's own
modules that the file imports. Code under `if TYPE_CHECKING`, or in a `try` that expects the import
to fail, is ignored.
"""

import ast
import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import msgspec

from servo.dagster.names import reason_against, supported
from servo.errors import Invalid

DAGSTER = "dagster"
PIPES = "dagster_pipes"
REMEDY = "replace them; the guide `Coming from Dagster` lists what there is"
GATHERING = ("_from_package_", "load_from_defs_folder")
EXPECTED = ("ImportError", "ModuleNotFoundError", "Exception")


class UnsupportedName(msgspec.Struct, frozen=True, order=True):
    """An unsupported name, and where it is used."""

    file: str
    line: int
    name: str
    reason: str = ""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.name}" + (
            f" ({self.reason})" if self.reason else ""
        )


def check_supported(target: str, folder: Path) -> None:
    """Raise `Invalid` with every unsupported name that a file or a module uses."""
    start = _start(target, folder)
    if start is None:
        return  # importing it reports the error
    found = sorted({item for path in own_files(start, folder) for item in found_in(path, folder)})
    if found:
        lines = "".join(f"\n  {item}" for item in found)
        raise Invalid(
            f"{target} uses features that Servo does not support:{lines}\n{len(found)} in all",
            remedy=REMEDY,
        )


def _start(target: str, folder: Path) -> Path | None:
    path = folder / target
    if path.is_file():
        return path
    top = target.partition(".")[0]
    places = [folder, folder / "src"]
    if not target.endswith(".py") and (spec := importlib.util.find_spec(top)) is not None:
        places += [Path(place).parent for place in spec.submodule_search_locations or ()]
    found = [file for place in places for file in _files_of(target, place)]
    return found[-1] if found else None


# --- which files belong to the project ------------------------------------------------------------


def own_files(start: Path, folder: Path) -> list[Path]:
    """The file and the project's own files that it imports."""
    roots = dict.fromkeys(place.resolve() for place in (folder, start.parent, _root_of(start)))
    pending, seen = [start.resolve()], dict[Path, None]()
    while pending:
        path = pending.pop()
        tree = _parsed(path)
        if path in seen or tree is None:
            continue
        seen[path] = None
        pending += _imported(tree, path, list(roots))
    return list(seen)


def _root_of(path: Path) -> Path:
    """The folder that contains the outermost package of a file."""
    root = path.resolve().parent
    while (root / "__init__.py").is_file():
        root = root.parent
    return root


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return None  # importing it reports the error, with the line


def _imported(tree: ast.Module, path: Path, roots: Sequence[Path]) -> Iterator[Path]:
    gathers = any(word in ast.dump(tree) for word in GATHERING)
    if gathers:
        yield from sorted(path.parent.glob("defs/**/*.py"))
    for node in ast.walk(tree):
        for name, places in _named(node, path, roots):
            for place in places:
                for file in _files_of(name, place):
                    yield file
                    if gathers and file.name == "__init__.py":
                        yield from sorted(file.parent.rglob("*.py"))


def _named(
    node: ast.AST, path: Path, roots: Sequence[Path]
) -> Iterator[tuple[str, Sequence[Path]]]:
    """The modules that an import names, and where each may be."""
    if isinstance(node, ast.Import):
        yield from ((alias.name, roots) for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        places = roots if not node.level else [_above(path.parent, node.level - 1)]
        yield from (
            (f"{node.module}.{alias.name}" if node.module else alias.name, places)
            for alias in node.names
        )


def _above(folder: Path, levels: int) -> Path:
    for _ in range(levels):
        folder = folder.parent
    return folder


def _files_of(name: str, root: Path) -> Iterator[Path]:
    """The existing files in a folder that importing a module would run."""
    place = root
    for part in name.split("."):
        place = place / part
        for file in (place / "__init__.py", place.with_name(f"{part}.py")):
            if file.is_file():
                yield file.resolve()


# --- what a file uses -----------------------------------------------------------------------------


def found_in(path: Path, folder: Path) -> list[UnsupportedName]:
    """The unsupported names that a file uses."""
    tree = _parsed(path)
    if tree is None:
        return []
    home = folder.resolve()
    shown = path.relative_to(home) if path.is_relative_to(home) else path
    use = _Use(str(shown))
    use.visit(tree)
    return use.found


class _Use(ast.NodeVisitor):
    """Visits a file and collects unsupported names."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._modules: set[str] = set()
        self._names: dict[str, str] = {}
        self._known = supported()
        self._expected = 0
        self.found: list[UnsupportedName] = []

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" in ast.dump(node.test):
            self._visit_all(node.orelse)
        else:
            self.generic_visit(node)

    def visit_Try(self, node: ast.Try) -> None:
        expected = any(_expects(handler) for handler in node.handlers)
        self._expected += expected
        self._visit_all(node.body)
        self._expected -= expected
        self._visit_all([*node.handlers, *node.orelse, *node.finalbody])

    def _visit_all(self, nodes: Iterable[ast.AST]) -> None:
        for node in nodes:
            self.visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name == DAGSTER:
                self._modules.add(alias.asname or DAGSTER)
            elif _is_library(alias.name):
                self._keep(node, alias.name, _library_reason(alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        if node.level or not (module == DAGSTER or _is_library(module)):
            return
        for alias in node.names:
            if module != DAGSTER:
                self._keep(node, f"{module}.{alias.name}", _library_reason(module))
            elif alias.name in self._known:
                self._names[alias.asname or alias.name] = alias.name
            elif alias.name != "*":
                self._keep(node, f"{DAGSTER}.{alias.name}", reason_against(alias.name))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if isinstance(node.value, ast.Name) and node.value.id in self._modules:
            if node.attr not in self._known and not node.attr.startswith("__"):
                self._keep(node, f"{DAGSTER}.{node.attr}", reason_against(node.attr))
        elif (owner := self._owner(node.value)) and not _has(owner, node.attr):
            self._keep(node, f"{DAGSTER}.{owner}.{node.attr}", "")
        self.generic_visit(node)

    def _owner(self, node: ast.expr) -> str:
        """The supported name that an expression is, if it is one."""
        if isinstance(node, ast.Name):
            return self._names.get(node.id, "")
        if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name):
            return ""
        return node.attr if node.value.id in self._modules and node.attr in self._known else ""

    def _keep(self, node: ast.AST, name: str, reason: str) -> None:
        if self._expected and isinstance(node, ast.Import | ast.ImportFrom):
            return
        line = getattr(node, "end_lineno" if isinstance(node, ast.Attribute) else "lineno", 0)
        self.found.append(UnsupportedName(self._file, line, name, reason))


def _expects(handler: ast.ExceptHandler) -> bool:
    """Whether a handler catches failed imports."""
    caught = "" if handler.type is None else ast.dump(handler.type)
    return handler.type is None or any(f"'{name}'" in caught for name in EXPECTED)


def _is_library(module: str) -> bool:
    """Whether a module is part of Dagster, or a library for it."""
    top = module.partition(".")[0]
    if top == PIPES:
        return importlib.util.find_spec("servo.pipes") is None
    return module.startswith(f"{DAGSTER}.") or top.startswith(f"{DAGSTER}_")


def _library_reason(module: str) -> str:
    if module.startswith(f"{DAGSTER}."):
        return "only what `import dagster` gives"
    return "a library made for Dagster; use the tool itself in a ConfigurableResource"


def _has(name: str, attribute: str) -> bool:
    """Whether a class has an attribute; anything else is not checked."""
    value: Any = getattr(import_module("servo.dagster"), name)
    return not isinstance(value, type) or hasattr(value, attribute)
