"""The tokens of a selection's text, and errors that point at one of them.

A quoted name may contain any character; a backslash escapes `"`, `*` and itself. An unquoted name
ends at a space or a punctuation mark. Which words are operators is decided by the parser.
"""

import unicodedata
from enum import StrEnum

import msgspec

from servo.errors import Invalid

_ESCAPED = '\\"*'
_BEFORE, _AFTER = 50, 20
_WIDE = {"F", "W"}


class TokenKind(StrEnum):
    """The kind of a token."""

    WORD = "word"
    QUOTED = "quoted"
    OPEN = "("
    CLOSE = ")"
    COMMA = ","
    PLUS = "+"
    STAR = "*"
    EQUAL = "="
    COLON = ":"
    END = "end"


_MARKS = {kind.value: kind for kind in TokenKind if len(kind.value) == 1}


class Token(msgspec.Struct, frozen=True):
    """A part of the text, from `start` up to, but not including, `end`.

    `pieces` are the parts of a quoted name between its wildcards, without quotes and escapes.
    """

    kind: TokenKind
    start: int
    end: int
    text: str = ""
    pieces: tuple[str, ...] = ()

    def touches(self, following: "Token") -> bool:
        """Whether the next token follows without a space."""
        return self.end == following.start


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`, followed by an end token."""
    found: list[Token] = []
    at = 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found.append(_token(text, at))
        at = found[-1].end
    return [*found, Token(TokenKind.END, len(text), len(text))]


def _token(text: str, at: int) -> Token:
    if mark := _MARKS.get(text[at]):
        return Token(mark, at, at + 1, text[at])
    return _quoted(text, at) if text[at] == '"' else _word(text, at)


def _word(text: str, at: int) -> Token:
    end = at + 1
    while end < len(text) and not (text[end].isspace() or text[end] == '"' or text[end] in _MARKS):
        end += 1
    return Token(TokenKind.WORD, at, end, text[at:end])


def _quoted(text: str, start: int) -> Token:
    pieces: list[list[str]] = [[]]
    at = start + 1
    while at < len(text) and text[at] != '"':
        if text[at] == "\\":
            at += 1
            pieces[-1].append(_escaped(text, at))
        elif text[at] == "*":
            pieces.append([])
        else:
            pieces[-1].append(text[at])
        at += 1
    if at >= len(text):
        raise wrong(text, start, "this quote is never closed", "expected another quote after it")
    whole = tuple("".join(piece) for piece in pieces)
    return Token(TokenKind.QUOTED, start, at + 1, text[start : at + 1], whole)


def _escaped(text: str, at: int) -> str:
    if text[at : at + 1] and text[at] in _ESCAPED:
        return text[at]
    raise wrong(
        text, at - 1, "a backslash before an ordinary character", 'expected \\", \\* or \\\\'
    )


def quoted(*pieces: str) -> str:
    """The quoted name with these pieces between its wildcards."""
    return '"' + "*".join(_escape(piece) for piece in pieces) + '"'


def _escape(piece: str) -> str:
    return "".join("\\" + char if char in _ESCAPED else char for char in piece)


def wrong(text: str, at: int, problem: str, remedy: str) -> Invalid:
    """The error that shows the text with a caret under the character at `at`."""
    start, end = max(0, at - _BEFORE), at + _AFTER
    before = ("…" if start else "") + _printable(text[start:at])
    after = _printable(text[at:end]) + ("…" if end < len(text) else "")
    caret = " " * sum(_columns(char) for char in before) + "^"
    return Invalid(
        f"selection, character {at + 1}: {problem}",
        remedy=f"{remedy}\n    {before}{after}\n    {caret}",
    )


def _printable(text: str) -> str:
    """`text` on one line, so that the caret stays below it."""
    return "".join(char if char.isprintable() else " " for char in text)


def _columns(char: str) -> int:
    """The number of terminal columns of a character."""
    if unicodedata.combining(char):
        return 0
    return 2 if unicodedata.east_asian_width(char) in _WIDE else 1
