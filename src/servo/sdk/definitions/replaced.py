"""Detect two definitions of one name in a file, of which Python keeps only the second.

Nothing is left of the first once the file has been run, so this reads the source. A definition that
was stored somewhere before it was replaced (in a list, under another name, in `Definitions`) was
meant to be kept, and is treated like any other asset.
"""

import ast
import inspect
import re
from collections import Counter
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from servo.errors import Invalid

_TOP = re.compile(r"^(?:async +)?def +(\w+)", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def refuse_replaced(module: ModuleType) -> None:
    """Raise `Invalid` with both places if a definition of this module replaces another."""
    try:
        text = inspect.getsource(module)
    except (OSError, TypeError):
        return  # created dynamically, or the file is gone
    # Few files define a name twice, and only those need parsing.
    if not [name for name, times in Counter(_TOP.findall(text)).items() if times > 1]:
        return
    for first, second in _replacing(ast.parse(text).body, vars(module)):
        places = " and ".join(f"{module.__file__}:{_line(one)}" for one in (first, second))
        raise Invalid(
            f"{first.name} is defined twice: {places}, and the second replaces the first",
            remedy="give one of the two another name",
        )


def _replacing(body: list[ast.stmt], names: dict[str, Any]) -> Iterator[tuple[Function, Function]]:
    """Every definition that was replaced by another before anything kept it."""
    open_: dict[str, Function] = {}
    for statement in body:
        if not isinstance(statement, Function):
            for node in ast.walk(statement):
                if isinstance(node, ast.Name):
                    _ = open_.pop(node.id, None)
            continue
        ours = _is_ours(statement, names)
        if ours and statement.name in open_:
            yield open_[statement.name], statement
        if ours:
            open_[statement.name] = statement


def _is_ours(function: Function, names: dict[str, Any]) -> bool:
    return any(_comes_from_servo(one, names) for one in function.decorator_list)


def _comes_from_servo(decorator: ast.expr, names: dict[str, Any]) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    path: list[str] = []
    while isinstance(target, ast.Attribute):
        path.insert(0, target.attr)
        target = target.value
    found: Any = names.get(target.id) if isinstance(target, ast.Name) else None
    for name in path:
        found = getattr(found, name, None)
    return str(getattr(found, "__module__", "")).startswith("servo.")


def _line(function: Function) -> int:
    """The first line as Python counts: that of the first decorator."""
    return function.decorator_list[0].lineno
