"""What mutmut would change in a source file.

The only module that knows the tool. Its operators decide what is changed, and how; which changes
count, which are tried and by what is decided elsewhere. mutmut's own runner is not used: it changes
no decorated function, no constant and no class body, and the processes that tests start would run
the unchanged code.

mutmut is installed by `make mutants` alone, so the type checker does not see it.
"""

from collections.abc import Iterator
from importlib import import_module
from typing import Any

from tests.mutants.changes import Change


def changes(source: str) -> Iterator[Change]:
    """Every change that an operator makes to this source, in the order of the source."""
    operators: Any = import_module("mutmut.mutation.mutators").mutation_operators
    module, places = _parsed(source)
    for node, (start, end) in places:
        for kind, operator in operators:
            for changed in operator(node) if isinstance(node, kind) else ():
                indent = _indent(module.code_for_node(node), source[start:end])
                now = module.code_for_node(changed).replace("\n", "\n" + indent)
                yield Change(start=start, end=end, now=now)


def _indent(alone: str, source: str) -> str:
    """How far the lines of a statement are indented, which code that is printed alone is not."""
    for printed, line in zip(alone.splitlines()[1:], source.splitlines()[1:], strict=False):
        if printed:
            return line.removesuffix(printed)
    return ""


def _parsed(source: str) -> tuple[Any, list[tuple[Any, tuple[int, int]]]]:
    """The syntax tree, and from where to where each node is with the blanks that belong to it."""
    metadata: Any = import_module("libcst.metadata")
    wrapper: Any = metadata.MetadataWrapper(import_module("libcst").parse_module(source))
    places: Any = wrapper.resolve(metadata.WhitespaceInclusivePositionProvider)
    starts = _line_starts(source)

    def offset(place: Any) -> int:
        line, column = int(place.line), int(place.column)
        return starts[line - 1] + column

    nodes = [node for node in _walk(wrapper.module) if node in places]
    return wrapper.module, [
        (node, (offset(places[node].start), offset(places[node].end))) for node in nodes
    ]


def _walk(node: Any) -> Iterator[Any]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _line_starts(source: str) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts
