"""Old payloads, brought up one version step at a time.

A step is a function from the plain JSON object of version n to that of version n+1, kept for
ever: the ledger is never rewritten. There are none yet; `STEPS` is where the first one goes, and
the golden ledgers prove that it folds as before.
"""

from collections.abc import Callable, Mapping
from typing import Any

Payload = dict[str, Any]
_Upcast = Callable[[Payload], Payload]

STEPS: dict[tuple[str, int], _Upcast] = {}


def upcast(
    payload: Payload, *, to: int, steps: Mapping[tuple[str, int], _Upcast] = STEPS
) -> Payload:
    """Raise a payload to version `to`, or leave it where no further step is known."""
    while (version := int(payload.get("v", 1))) < to:
        step = steps.get((str(payload.get("type")), version))
        if step is None:
            break
        payload = {**step(payload), "v": version + 1}
    return payload
