"""What controllers ask for. They decide on values and return values; the runtime does the rest.

`Propose` becomes a batch that the fold accepts or refuses. `Send` puts a committed outbox row on
its queue. Nothing here is done twice by being returned twice: proposals carry what they saw, and
messages carry names that queues recognise.
"""

import msgspec

from servo.core.events.envelope import Event
from servo.core.state.rows.execution import DispatchOutboxRow


class Propose(msgspec.Struct, frozen=True):
    """Events that a controller wants to have happened, together or not at all."""

    events: tuple[Event, ...]


class Send(msgspec.Struct, frozen=True):
    """A delivery that its queue has not taken yet."""

    row: DispatchOutboxRow


Action = Propose | Send
