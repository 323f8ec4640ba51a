"""Messages for push sensors."""

import msgspec

from servo.core.ids import check_text, ulid
from servo.errors import Invalid
from servo.operations.interface.roles import operation
from servo.operations.triggers.sensors import ListedSensor, present_sensor
from servo.workspace.push_messages import message
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace

NO_PAYLOAD = "null"


class MessageSent(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was sent to a push sensor, and the receipt."""

    sensor_id: str
    message_id: str
    receipt: Receipt


@operation
def push_message(
    workspace: Workspace, name: str, payload: str = NO_PAYLOAD, *, message_id: str | None = None
) -> MessageSent:
    """Send a message to a push sensor; `payload` is JSON.

    `message_id` is an idempotency key: repeating it changes nothing.
    """
    _check_takes_messages(present_sensor(workspace, name))
    check_payload(payload)
    made = _new_id(workspace) if message_id is None else check_text(message_id, "message id")
    event = message(workspace.store, workspace.paths, name, made, payload)
    receipt = workspace.submit(event).checked()
    return MessageSent(sensor_id=name, message_id=made, receipt=receipt)


def _new_id(workspace: Workspace) -> str:
    return ulid(workspace.now(), bytes.fromhex(workspace.token(10)))


def _check_takes_messages(row: ListedSensor) -> None:
    if not row.pushed:
        raise Invalid(
            f"sensor {row.name} polls and takes no messages",
            remedy="define it with @push_sensor, or choose one from `servo sensor list`",
        )


def check_payload(payload: str) -> None:
    """`Invalid` if a payload is not JSON."""
    try:
        _ = msgspec.json.decode(payload)
    except msgspec.DecodeError as error:
        raise Invalid(
            f"invalid JSON in the payload: {error}",
            remedy="send JSON; a string needs double quotes: '\"text\"'",
        ) from None
