"""The one place where actions become effects outside the ledger.

Only committed actions are performed: a delivery is sent from an outbox row of a durable entry. A
crash between sending and recording sends again under the same name, which the queue recognises.
"""

from servo.controllers.actions import Send
from servo.controllers.dispatch import outbox
from servo.core.actors import ActorKind, actor
from servo.core.events.dispatch import DispatchEnqueued
from servo.core.events.envelope import Batch
from servo.core.state.state import State
from servo.errors import Unavailable
from servo.leader.ports import Ports
from servo.ledger.paths import Paths
from servo.ports.task_queue import Delivery, TaskQueue

EXECUTOR = actor(ActorKind.LEADER, "executor")


class Executor:
    """Performs the actions of one leader."""

    def __init__(self, ports: Ports, paths: Paths) -> None:
        self._ports = ports
        self._paths = paths
        self._in_flight: dict[tuple[str, int], None] = {}

    def flush(self, state: State) -> list[Batch]:
        """Send pending deliveries; the events that record it."""
        pending = state.index.outbox_pending
        self._in_flight = {key: None for key in self._in_flight if key in pending}
        queue = self._ports.queue
        if queue is None:
            return []
        return [
            note for action in outbox(state, self._in_flight) for note in self._send(queue, action)
        ]

    def _send(self, queue: TaskQueue, action: Send) -> list[Batch]:
        row = action.row
        delivery = Delivery(
            name=row.cloud_task_id,
            queue=row.worker_queue,
            tenant=self._paths.tenant,
            workspace=self._paths.workspace,
            run_id=row.run_id,
            task_key=row.task_key,
            attempt=row.attempt,
            attempt_id=row.attempt_id,
            delivery=row.delivery,
        )
        try:
            queue.send(delivery)
        except Unavailable:
            return []
        self._in_flight[row.attempt_id, row.delivery] = None
        event = DispatchEnqueued(
            run_id=row.run_id,
            task_key=row.task_key,
            attempt_id=row.attempt_id,
            delivery=row.delivery,
        )
        return [Batch(id=f"enqueued-{row.cloud_task_id}", events=(event,), actor=EXECUTOR)]
