"""The actions that controllers return: they decide on values, and the leader executes.

`Propose` becomes a batch that the fold accepts or rejects. `Send` puts a committed outbox row on
its queue. Returning an action twice does no harm: proposals carry what they were based on, and
messages carry names that queues recognize.
"""

import msgspec

from servo.core.events.envelope import Event
from servo.core.state.rows.execution import DispatchOutboxRow


class Propose(msgspec.Struct, frozen=True):
    """Events that a controller proposes, to be applied together or not at all."""

    events: tuple[Event, ...]


class Send(msgspec.Struct, frozen=True):
    """A delivery that its queue has not accepted yet."""

    row: DispatchOutboxRow
