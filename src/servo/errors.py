"""Every error Servo raises, by what the caller should do about it.

    ServoError
    ├── Invalid       fix the request; the same request will never work
    ├── NotFound      what was named does not exist
    ├── Conflict      somebody else changed it first; refresh and decide again
    ├── Fenced        another writer owns this now; stop writing
    ├── Unavailable   the outside world failed; retry later
    ├── Corrupt       stored bytes are not what was written; stop and report
    ├── NeedsUpgrade   a newer Servo wrote this; upgrade
    └── Internal      a bug in Servo

Adapters translate their own failures into these at their edge. HTTP statuses and exit codes are
tables over these kinds. A message says what is wrong and ends with the remedy.
"""


class ServoError(Exception):
    """Something Servo refused or could not do."""

    remedy: str

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}; {self.remedy}" if self.remedy else self.message


class Invalid(ServoError):
    """The request is wrong and stays wrong however often it is sent."""


class NotFound(ServoError):
    """What the request names does not exist."""


class Conflict(ServoError):
    """The precondition of the request does not hold: somebody else was first."""


class Fenced(ServoError):
    """Another writer owns what this process thought it owned."""


class Unavailable(ServoError):
    """A dependency failed, or did not answer.

    `may_have_applied` is the difference that matters: a write that timed out may have happened
    and may still happen, one that the disk refused for lack of space has not and never will.
    """

    def __init__(self, message: str, *, remedy: str = "", may_have_applied: bool = True) -> None:
        super().__init__(message, remedy=remedy)
        self.may_have_applied = may_have_applied


class Corrupt(ServoError):
    """Stored bytes do not match their hash, their length or their form."""


class NeedsUpgrade(ServoError):
    """A newer version of Servo wrote what is stored, and this one does not understand it."""


class Internal(ServoError):
    """A state that Servo's own rules exclude."""
