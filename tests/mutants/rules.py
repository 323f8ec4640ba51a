"""Which changes do not count, by construction: nothing that Servo promises depends on them.

- Type annotations, type aliases, type variables, `cast`, protocols, overloads and `TYPE_CHECKING`.
- Docstrings.
- Wording: texts with several words (but SQL counts), the texts of errors, the arguments `remedy`
  and `what`, which end up in messages, `__repr__`. Tests compare the messages that matter; the
  others may be reworded.
- What is logged.
- `frozen`, `kw_only` and the like in the header of a class, which the type checker enforces.
- What the type checker excludes: `assert_never`, and `None` in place of `False`.
"""

import ast
import re
from collections.abc import Iterator

from tests.mutants.changes import Change, touched

ERRORS = re.compile(
    r"Invalid|NotFound|Conflict|Fenced|Unavailable|Corrupt|Internal|\w*(Error|Exception|Exit)"
)
SQL = re.compile(r"\s*[A-Z]{2,}\s")
PROSE = re.compile(r"\w[,:;.)]? \(?\w|^ \w|\w[,:;]? $")
TOLD = frozenset({"remedy", "what"})
LOGS = frozenset({"_log", "log", "logger", "_logger", "warnings"})
HEADERS = frozenset({"frozen", "kw_only", "slots", "gc", "eq", "order", "cache_hash", "weakref"})
TYPE_MAKERS = frozenset({"TypeVar", "ParamSpec", "NewType", "getLogger"})


class Rules:
    """The parts of one source in which changes do not count."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._starts = [0]
        self._lines = source.splitlines(keepends=True)
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self._parts = [self._span(node) for node in _uncounted(ast.parse(source))]

    def count(self, change: Change) -> bool:
        """Whether a change counts."""
        start, end = touched(self._source, change)
        if (self._source[start:end], change.now) == ("False", "None"):
            return False
        return not any(first <= start and end <= last for first, last in self._parts)

    def _span(self, node: ast.AST) -> tuple[int, int]:
        if isinstance(node, ast.match_case):  # the one node without a place of its own
            return self._starts[node.pattern.lineno - 1], self._span(node.body[-1])[1]
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        end_line, end_column = node.end_lineno, node.end_col_offset
        assert end_line is not None
        assert end_column is not None
        return self._at(node.lineno, node.col_offset), self._at(end_line, end_column)

    def _at(self, line: int, column: int) -> int:
        """The character at a column, which the parser counts in bytes."""
        ahead = self._lines[line - 1].encode()[:column]
        return self._starts[line - 1] + len(ahead.decode())


def _uncounted(tree: ast.Module) -> Iterator[ast.AST]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and _is_type(statement.value):
            yield statement
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef():
                yield from _of_class(node)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _of_function(node)
            case ast.AnnAssign():
                yield node.annotation
            case ast.Call():
                yield from _of_call(node)
            case _ if _is_for_checkers(node) or _is_for_readers(node):
                yield node
            case _:
                pass


def _is_for_checkers(node: ast.AST) -> bool:
    match node:
        case ast.Assign(value=ast.Call(func=function)):
            return _last_name(function) in TYPE_MAKERS
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return True
        case ast.match_case(body=[ast.Expr(value=ast.Call(func=ast.Name(id="assert_never")))]):
            return True
        case _:
            return False


def _is_for_readers(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
        case ast.Constant():
            return _is_prose(node)
        case ast.JoinedStr():
            return any(_is_prose(part) for part in node.values)
        case _:
            return False


def _of_class(node: ast.ClassDef) -> Iterator[ast.AST]:
    if any(_last_name(base) == "Protocol" for base in node.bases):
        yield node
    yield from (base for base in node.bases if isinstance(base, ast.Subscript))
    made = [call for call in node.decorator_list if isinstance(call, ast.Call)]
    for keyword in [*node.keywords, *(keyword for call in made for keyword in call.keywords)]:
        if keyword.arg in HEADERS:
            yield keyword


def _of_function(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    if node.name in {"__repr__", "__str__"}:
        yield node
    if any(_last_name(decorator) == "overload" for decorator in node.decorator_list):
        yield node
    if node.returns is not None:
        yield node.returns
    given = node.args
    for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg):
        if argument is not None and argument.annotation is not None:
            yield argument.annotation


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    called = _last_name(node.func)
    if called == "assert_never" or _is_log(node.func):
        yield node
    elif called == "cast":
        yield from node.args[:1]
    elif ERRORS.fullmatch(called):
        yield from (part for part in (*node.args, *node.keywords) if _is_text(part))
    yield from (part for part in node.keywords if part.arg in TOLD)


def _is_log(function: ast.expr) -> bool:
    return isinstance(function, ast.Attribute) and _last_name(function.value) in LOGS


def _is_text(node: ast.expr | ast.keyword) -> bool:
    if isinstance(node, ast.keyword):
        return _is_text(node.value)
    if isinstance(node, ast.BinOp):
        return _is_text(node.left) or _is_text(node.right)
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_prose(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and bool(PROSE.search(value)) and not SQL.match(value)


def _is_type(node: ast.expr) -> bool:
    """`dict[str, int]` or `A | B`: what a type alias stands for."""
    match node:
        case ast.Subscript(value=ast.Name() | ast.Attribute()):
            return True
        case ast.BinOp(op=ast.BitOr()):
            return all(isinstance(s, ast.Name) or _is_type(s) for s in (node.left, node.right))
        case _:
            return False


def _last_name(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return _last_name(node.value)
        case _:
            return ""
