"""Errors passed from an evaluator to its caller, with their kind and remedy."""

from servo.code.evaluator.loaded_location import told
from servo.code.evaluator.messages import Refused
from servo.errors import Conflict, Corrupt, Invalid, NotFound, ServoError, Unavailable

_KINDS: dict[str, type[ServoError]] = {
    kind.__name__: kind for kind in (Invalid, NotFound, Conflict, Unavailable, Corrupt)
}


def refused(error: BaseException) -> Refused:
    """An error as an answer, without secrets. What user code raises makes the request invalid."""
    if not isinstance(error, ServoError):
        return Refused(kind=Invalid.__name__, message=told(error), remedy="fix the code")
    kind = next((one.__name__ for one in type(error).__mro__ if one.__name__ in _KINDS), "")
    return Refused(
        kind=kind or Invalid.__name__,
        message=told(ServoError(error.message)),
        remedy=told(ServoError(error.remedy)),
    )


def error_of(answer: Refused) -> ServoError:
    """The error that an answer stands for."""
    return _KINDS.get(answer.kind, Invalid)(answer.message, remedy=answer.remedy)
