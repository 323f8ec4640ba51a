"""Which versions of the stored format this version of Servo writes and reads.

Every stored object that Servo folds or reads tables from says two numbers: `format`, the version
that its writer knew, and `min_reader`, the lowest version that understands it. `min_servo` names
the first release that does, because an older Servo cannot know it. Whoever knows less than
`min_reader` refuses the object with `NeedsUpgrade`, which is not `Corrupt`: nothing is damaged, and
nothing may be skipped, repaired or rebuilt on account of it.

Within a ledger `min_reader` never goes down: an entry says what is needed to fold the ledger up to
it. So the last entry and the newest manifest tell whether a process may lead, before it writes.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from servo.core.events.envelope import Event, UnknownEvent
from servo.core.fold.limits import FOLD_VERSION
from servo.errors import NeedsUpgrade

FORMAT = 1
"""The version that this Servo writes; it reads all up to it."""

MIN_READER = 1
"""What every entry of this Servo needs, whatever is in it: raised with FOLD_VERSION."""

MIN_TABLE_READER = 1
"""What its tables need: raised when an older Servo would misread a file or a column."""

RELEASES: Mapping[int, str] = MappingProxyType({1: "0.1.0"})
"""The first release that reads each version."""


def reader_of(events: Iterable[Event | UnknownEvent]) -> int:
    """The lowest version that understands these events."""
    found = MIN_READER
    for event in events:
        if isinstance(event, Event) and found < event.SINCE:
            found = event.SINCE
    return found


def servo_of(version: int) -> str:
    """The first release that reads `version`, for `min_servo`; empty if every release does."""
    return RELEASES[version] if version > 1 else ""


def check_known(what: str, *, needs: int, servo: str = "", fold: int = FOLD_VERSION) -> None:
    """`NeedsUpgrade` if this version of Servo does not understand `what`."""
    if needs > FORMAT:
        raise needs_upgrade(f"{what} needs format {needs}, and this Servo knows {FORMAT}", servo)
    if fold > FOLD_VERSION:
        raise needs_upgrade(
            f"{what} needs fold version {fold}, and this Servo has {FOLD_VERSION}", servo
        )


def needs_upgrade(what: str, servo: str = "") -> NeedsUpgrade:
    """The error that says which Servo is needed."""
    release = f"Servo {servo} or later" if servo else "the Servo that wrote it, or a later one"
    return NeedsUpgrade(what, remedy=f"upgrade to {release}; nothing is damaged or was changed")
