"""Identifiers: what they may contain, and how the derived ones are computed.

Names that people choose are checked once, where they enter; text that comes from outside (run
keys, message ids) is checked for what makes two ids look alike or a path escape. Derived ids are
hashes of canonical JSON lists (never of joined strings, where `a:b` + `c` meets `a` + `b:c`), hold
tenant and workspace wherever those are not already inside, and are never parsed. The same inputs
give the same id on every machine and for ever: the golden vectors pin each of them.
"""

import hmac
import re
import struct
import unicodedata
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import NewType

import msgspec

from servo.errors import Invalid

TenantId = NewType("TenantId", str)
WorkspaceId = NewType("WorkspaceId", str)
RunId = NewType("RunId", str)
RunKey = NewType("RunKey", str)
AssetKeyStr = NewType("AssetKeyStr", str)
PartitionKeyStr = NewType("PartitionKeyStr", str)
TaskKeyStr = NewType("TaskKeyStr", str)
AttemptId = NewType("AttemptId", str)
BackfillId = NewType("BackfillId", str)
QueueMessageName = NewType("QueueMessageName", str)
TimerName = NewType("TimerName", str)
Digest = NewType("Digest", str)

MAX_TEXT_BYTES = 1024
MIN_SALT_BYTES = 16
JITTER_STEPS = 10_000

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}")
_DEFINITION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}")
# Control characters, line separators, direction marks (they make one text look like another),
# lone surrogates, and the backslash, which is a separator to half of the world's file systems.
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\\\\\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
# A step up, written plainly or percent-encoded any number of times.
_TRAVERSAL = re.compile(r"(?:^|/)\.\.?(?:/|$)|%(?:25)*2e", re.IGNORECASE)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ULID_ENTROPY_BYTES = 10


def check_name(value: str, what: str) -> str:
    """`value` if it can name a tenant, a workspace, a pool or a queue."""
    if not _NAME.fullmatch(value):
        raise Invalid(
            f"{what} {_shown(value)} is not a valid name",
            remedy="use 1 to 63 of a-z, 0-9, '_' and '-', beginning with a letter or digit",
        )
    return value


def check_definition_name(value: str, what: str) -> str:
    """`value` if it can name a schedule or a sensor, which functions of any spelling do."""
    if not _DEFINITION.fullmatch(value):
        raise Invalid(
            f"{what} {_shown(value)} is not a valid name",
            remedy="use 1 to 255 letters, digits, '_' and '-'",
        )
    return value


def check_text(value: str, what: str, max_bytes: int = MAX_TEXT_BYTES) -> str:
    """`value` if it is safe as a free-text id, such as a run key or a message id."""
    if not value:
        raise Invalid(f"{what} is empty", remedy="use at least one character")
    if unsafe := _UNSAFE.search(value):
        raise Invalid(
            f"{what} {_shown(value)} contains U+{ord(unsafe.group()):04X}",
            remedy="leave out backslashes, control characters and direction marks",
        )
    if _TRAVERSAL.search(value):
        raise Invalid(
            f"{what} {_shown(value)} contains a relative path step",
            remedy="leave out '.' and '..' between slashes, and '%2e'",
        )
    if len(value.encode()) > max_bytes:
        raise Invalid(f"{what} is longer than {max_bytes} bytes", remedy="shorten or hash it")
    if not unicodedata.is_normalized("NFC", value):
        raise Invalid(
            f"{what} {_shown(value)} is not in Unicode normal form C",
            remedy="pass it through unicodedata.normalize('NFC', ...) first",
        )
    return value


def ulid(timestamp: datetime, entropy: bytes) -> str:
    """A ULID: 48 bits of milliseconds, 80 of entropy. It is unique; Servo never orders by it."""
    if timestamp.tzinfo is None or len(entropy) != _ULID_ENTROPY_BYTES:
        raise Invalid(
            "a ULID needs an aware timestamp and 10 bytes of entropy",
            remedy="pass a UTC datetime and ten random bytes",
        )
    milliseconds = (timestamp - _EPOCH) // timedelta(milliseconds=1)
    if milliseconds < 0:
        raise Invalid(f"{timestamp} is before the first ULID", remedy="use a time from 1970 on")
    number = milliseconds << 80 | int.from_bytes(entropy)
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))


def run_id(salt: bytes, tenant: TenantId, workspace: WorkspaceId, run_key: RunKey) -> RunId:
    """The id of the run with this key; `salt` is the workspace's identity salt and never rotates.

    Neither a tenant nor a workspace can contain the colon that joins them to the run key, so the
    text is unambiguous although the run key may contain one.
    """
    if len(salt) < MIN_SALT_BYTES:
        raise Invalid(
            f"the identity salt has {len(salt)} bytes",
            remedy=f"use the workspace's stored salt of at least {MIN_SALT_BYTES} bytes",
        )
    _ = check_name(tenant, "tenant"), check_name(workspace, "workspace")
    text = f"{tenant}:{workspace}:{check_text(run_key, 'run key')}"
    return RunId(_base32("run_", hmac.digest(salt, text.encode(), "sha256")))


def attempt_id(run: str, task: str, attempt: int, given_back: int = 0) -> AttemptId:
    """The id of one attempt at one task of one run (the run's id holds tenant and workspace).

    `given_back` is the fencing token of a grant of this attempt that was given back, if one was:
    what was granted to one execution is granted to no other.

    In hexadecimal, unlike the others: the fold derives one per dispatch, and base32 takes longer
    than the hash.
    """
    parts = (run, task, attempt, given_back) if given_back else (run, task, attempt)
    digest = sha256(_encode(("attempt", *parts))).hexdigest()
    return AttemptId(f"att_{digest[:32]}")


def queue_message_name(
    tenant: TenantId, workspace: WorkspaceId, attempt: AttemptId, delivery: int
) -> QueueMessageName:
    """The name under which delivery number `delivery` of an attempt is put on a queue.

    A queue remembers the names it has seen, so sending again what may have been lost needs a new
    delivery number, and sending twice what was not needs the old one.
    """
    parts = ("delivery", tenant, workspace, attempt, delivery)
    return QueueMessageName(_base32("d_", _digest(parts)))


def timer_name(tenant: TenantId, workspace: WorkspaceId, kind: str, *parts: str | int) -> TimerName:
    """The name of a timer of this kind for what `parts` identify."""
    return TimerName(_base32("t_", _digest(("timer", tenant, workspace, kind, *parts))))


def backfill_id(tenant: TenantId, workspace: WorkspaceId, client_request_id: str) -> BackfillId:
    """The id of the backfill that a client requested under its own request id."""
    parts = ("backfill", tenant, workspace, check_text(client_request_id, "client request id"))
    return BackfillId(_base32("bf_", _digest(parts)))


def jitter_fraction(run: RunId, task: TaskKeyStr, attempt: int) -> int:
    """A number from 0 to 9,999 that spreads retries and is the same in every replay."""
    digest = _digest(("jitter", run, task, attempt))
    return int.from_bytes(digest[:8]) % JITTER_STEPS


def _shown(value: str) -> str:
    return repr(value if len(value) <= 80 else f"{value[:77]}...")


# For strings and integers plain msgspec already writes canonical JSON: a property test compares
# the two.
_encode = msgspec.json.Encoder().encode


def _digest(parts: tuple[str | int, ...]) -> bytes:
    return sha256(_encode(parts)).digest()


# Base32 (RFC 4648, lower case, no padding) of the first 16 bytes: 26 characters. base64.b32encode
# is pure Python and takes four times as long as ten bits at a time out of a table.
_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_PAIRS = tuple(first + second for first in _LETTERS for second in _LETTERS)
_unpack = struct.Struct(">IBIBIBB").unpack_from


def _base32(prefix: str, digest: bytes) -> str:
    a, b, c, d, e, f, g = _unpack(digest)
    return (
        f"{prefix}{_PAIRS[a >> 22]}{_PAIRS[a >> 12 & 1023]}{_PAIRS[a >> 2 & 1023]}"
        f"{_PAIRS[(a & 3) << 8 | b]}{_PAIRS[c >> 22]}{_PAIRS[c >> 12 & 1023]}"
        f"{_PAIRS[c >> 2 & 1023]}{_PAIRS[(c & 3) << 8 | d]}{_PAIRS[e >> 22]}"
        f"{_PAIRS[e >> 12 & 1023]}{_PAIRS[e >> 2 & 1023]}{_PAIRS[(e & 3) << 8 | f]}"
        f"{_PAIRS[g << 2]}"
    )
