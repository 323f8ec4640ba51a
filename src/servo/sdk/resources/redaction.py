"""Redaction: strings without secret values.

Code that resolves a secret registers its value here; code that lets a string leave the process
redacts it first. A value is found as it is, on one line or several, and as spelled by Python, JSON,
URLs, hexadecimal and Base64, also inside something longer that was encoded as a whole
("user:password"). Overlapping values are both redacted.

Values of fewer than four characters are not redacted: they would match in every text.
"""

import base64
import json
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple
from urllib.parse import quote, quote_plus

from servo.errors import Invalid

STARS = "***"
MIN_CHARACTERS = 4
MIN_LINE = 8
MIN_ENCODED = 4
MIN_DIGITS = 8
MAX_VALUES = 1_000


class _Known(NamedTuple):
    """All spellings of the registered values.

    `telling` are those that hardly occur by chance.
    """

    values: dict[str, None]
    spellings: tuple[bytes, ...]
    longest: int
    telling: tuple[bytes, ...] = ()


class Redaction:
    """The registered values; if there are very many, the most recent."""

    def __init__(self) -> None:
        self._values: dict[str, None] = {}
        self._known = _Known(self._values, (), 0)
        self._before_first: list[Callable[[], None]] = []

    def before_first(self, tell: Callable[[], None]) -> None:
        """Add a callback for the first registered value."""
        self._before_first.append(tell)

    def add(self, value: object) -> None:
        """Redact a value from now on."""
        text = str.__str__(value) if isinstance(value, str) else str(value)
        if text in self._values or len(text.strip()) < MIN_CHARACTERS:
            return
        if not self._values:
            for tell in self._before_first:
                tell()
        # A copy of the dictionary: another thread may add a value meanwhile.
        self._values = dict.fromkeys([*self._values, text][-MAX_VALUES:])

    def clear(self) -> None:
        """Forget every value."""
        self._values = {}

    def data(self, data: bytes) -> bytes:
        """The data without the values."""
        parts: list[bytes] = []
        kept = 0
        for start, end in _merged(_found(data, self._all().spellings)):
            parts += (data[kept:start], STARS.encode())
            kept = end
        return b"".join([*parts, data[kept:]]) if parts else data

    def text(self, text: str) -> str:
        """The text without the values."""
        if not self._values:
            return text
        return self.data(text.encode(errors="surrogatepass")).decode(errors="surrogatepass")

    def tail(self, data: bytes, most: int) -> bytes:
        """The last bytes, at most `most`, without the values and without parts of them."""
        longest = self._all().longest
        if len(data) <= most or not longest:
            return self.data(data[-most:])
        # A value that is cut off at the start is not found; it lies within the longest spelling.
        return self.data(data[-(most + longest) :])[longest:][-most:]

    def settled(self, data: bytes) -> tuple[bytes, bytes]:
        """The start of data that is still being written, redacted, and the rest, which is not.

        What follows can complete no value that begins before the rest.
        """
        known = self._all()
        cut = max(len(data) - max(known.longest - 1, 0), 0)
        for start, end in _merged(_found(data, known.spellings)):
            if start < cut < end:
                cut = start
        return self.data(data[:cut]), data[cut:]

    def holds_secret(self, text: str) -> bool:
        """Whether a text holds a value, other than a number of a few digits.

        Such a number, like a port, occurs by chance in offsets and timestamps.
        """
        data = text.encode(errors="surrogatepass")
        return any(spelling in data for spelling in self._all().telling)

    def longest_spelling(self) -> int:
        """The maximum length of a spelling in bytes, which readers need to overlap their chunks."""
        return self._all().longest

    def is_hidden(self, value: object) -> bool:
        """Whether this exact value, such as a number, is redacted."""
        return str(value) in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def _all(self) -> "_Known":
        # Stored with the values it was built from: another thread may add one meanwhile.
        values = self._values
        if self._known.values is not values:
            found = {s for value in values for s in _spellings(value)}
            telling = {s for value in values if _is_telling(value) for s in _spellings(value)}
            longest = max(map(len, found), default=0)
            self._known = _Known(values, tuple(sorted(found)), longest, tuple(sorted(telling)))
        return self._known


def _found(data: bytes, spellings: Iterable[bytes]) -> Iterator[tuple[int, int]]:
    for spelling in spellings:
        start = data.find(spelling)
        while start >= 0:
            yield start, start + len(spelling)
            start = data.find(spelling, start + 1)


def _merged(places: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The places in order, with overlapping and adjacent ones merged."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(places):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _spellings(value: str) -> set[bytes]:
    """All spellings of a value in a string."""
    stripped = value.strip()
    lines = [line.strip() for line in value.splitlines()] if len(value.splitlines()) > 1 else []
    plain = {value, stripped, *(line for line in lines if len(line) >= MIN_LINE)}
    written = {spelling for text in plain for spelling in _written(text)}
    return written | _encoded(value) | _encoded(stripped)


def _is_telling(value: str) -> bool:
    return not value.strip().isdecimal() or len(value.strip()) >= MIN_DIGITS


def _written(text: str) -> Iterator[bytes]:
    """A text as people and programs write it into another text."""
    # Twice: JSON that is shown in the arguments of an exception is escaped once more.
    for escaped in _escaped(text):
        for spelled in _escaped(escaped):
            yield spelled.encode(errors="surrogatepass")
    data = text.encode(errors="surrogatepass")
    for quoted in (quote(data), quote(data, safe=""), quote_plus(data)):
        yield quoted.encode()
        yield _lower_escapes(quoted).encode()


def _escaped(text: str) -> set[str]:
    # The quotes of one form are not escaped in the other, and both occur.
    return {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        repr(text)[1:-1],
        repr(f"{text}'")[1:-2],
        repr(f"{text}'\"")[1:-4],
        ascii(text)[1:-1],
    }


def _lower_escapes(quoted: str) -> str:
    first, *rest = quoted.split("%")
    return "%".join([first, *(part[:2].lower() + part[2:] for part in rest)])


def _encoded(text: str) -> set[bytes]:
    data = text.encode(errors="surrogatepass")
    found = {data.hex().encode(), data.hex().upper().encode()}
    found |= {line for line in base64.encodebytes(data).splitlines() if len(line) >= MIN_LINE}
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        found.add(encode(data))
        for before in range(3):
            # The characters that depend on this value alone, wherever in a group of three bytes
            # it begins.
            first = (before * 8 + 5) // 6
            core = encode(bytes(before) + data)[first : (before + len(data)) * 8 // 6]
            if len(core) >= MIN_ENCODED:
                found.add(core)
    return found


_hidden = Redaction()


def hidden() -> Redaction:
    """The redaction of this process."""
    return _hidden


def refuse_secrets(text: str, what: str, *, remedy: str = "leave it out") -> None:
    """Raise `Invalid` if a text holds a secret.

    For text that cannot be redacted, because it identifies something or user code gets it back.
    """
    if _hidden.holds_secret(text):
        raise Invalid(
            f"{what} contains a value that was read from a Secret or an EnvVar, "
            "and it would be stored",
            remedy=f"{remedy}; read a value that is not secret with os.environ",
        )
