"""The Python reference: every public name of `servo` stands on one of its pages.

Pages name what users import (`::: servo.asset`). The names are loaded on first use from modules
that are free to move, so `defined_in` finds the module that defines one, for mkdocstrings to read.
"""

import ast
import inspect
import re
import sys
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from checks.markdown import Docs

DIRECTORY = "docs/reference/python/"
DIRECTIVE = re.compile(r"^::: (servo(?:\.\w+)+)$", re.MULTILINE)
MODULES = ("servo.pipes",)  # public, and not part of `servo` itself


def python(docs: Docs) -> Iterator[str]:
    """Every public name is on one page, and the pages name nothing else."""
    expected = {f"servo.{name}" for name in import_module("servo").__all__} | {*MODULES}
    pages = [document for document in docs if document.name.startswith(DIRECTORY)]
    found = Counter(name for page in pages for name in DIRECTIVE.findall(page.text))
    yield from (f"{DIRECTORY} does not describe {name}" for name in sorted(expected - found.keys()))
    for name, times in found.items():
        if name not in expected:
            yield f"{DIRECTORY} describes {name}, which is not a public name"
        elif times > 1:
            yield f"{DIRECTORY} describes {name} {times} times"


def defined_in(public: str) -> str:
    """The full name of what a public name stands for: `servo.sdk.….asset` for `servo.asset`."""
    package, _, name = public.rpartition(".")
    value = getattr(import_module(package), name)
    if isinstance(value, ModuleType):
        return value.__name__
    modules = [module for key, module in [*sys.modules.items()] if key.partition(".")[0] == "servo"]
    holders = (module for module in modules if vars(module).get(name) is value)
    home = next(module for module in holders if name in _defined_names(module))
    return f"{home.__name__}.{name}"


def _defined_names(module: ModuleType) -> Iterator[str]:
    """What a module defines itself, at its top level; not what it imports."""
    for node in ast.parse(inspect.getsource(module)).body:
        match node:
            case ast.ClassDef() | ast.FunctionDef():
                yield node.name
            case ast.Assign():
                yield from (target.id for target in node.targets if isinstance(target, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case _:
                pass
