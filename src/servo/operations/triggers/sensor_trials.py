"""Manual evaluations of sensors, as a dry run or committed."""

import msgspec

from servo.code.evaluator.messages import Evaluated, EvaluateSensor
from servo.core.events.assets import AssetObserved, AssetReported, DynamicPartitionsChanged
from servo.core.events.sensors import PollTrigger, SensorEvalStatus
from servo.errors import NotFound
from servo.operations.interface.evaluating import Evaluates, RequestPreview, previews_of
from servo.operations.interface.roles import operation
from servo.operations.triggers.sensor_messages import NO_PAYLOAD, check_payload, push_message
from servo.operations.triggers.sensors import ListedSensor, all_sensors
from servo.projection.read.reader import Snapshot
from servo.sdk.triggers.sensors import TIMEOUT_S
from servo.triggers.sensors import DueSensor, epoch_of, evaluated, status_of
from servo.workspace.receipt import Receipt
from servo.workspace.workspace import Workspace


class SensorEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What a sensor requested in a manual evaluation; the receipt if it was committed.

    `message` says why there are no runs, or what went wrong.
    """

    sensor_id: str
    status: SensorEvalStatus
    message: str
    cursor: str | None
    runs: list[RequestPreview]
    partitions: list[DynamicPartitionsChanged]
    reported: list[AssetReported | AssetObserved]
    receipt: Receipt | None = None


@operation
def evaluate_sensor(
    workspace: Workspace,
    evaluates: Evaluates,
    name: str,
    *,
    cursor: str | None = None,
    payload: str = NO_PAYLOAD,
    commit: bool = False,
) -> SensorEvaluation:
    """Evaluate a sensor, from a cursor or with a payload, and return what it requests.

    With `commit` its runs are started and its cursor is moved. A push sensor is sent the payload as
    a message, which its evaluation then answers.
    """
    check_payload(payload)
    seq, row = _standing(workspace, name)
    if commit:
        _ = _deployed(name, row)
    state = None if row is None else row.state
    question = EvaluateSensor(
        sensor_id=name,
        eval_id=f"{name}:manual:{workspace.token(8)}",
        cursor=cursor if cursor is not None or state is None else state.cursor,
        seq=seq,
        since=0 if state is None else state.row_version,
        payload=payload,
    )
    seconds = TIMEOUT_S if row is None else row.definition.timeout_ms / 1000
    answer = evaluates.ask(question, seconds)
    found = _told(name, answer)
    if not commit or answer.error:
        return found
    receipt = _commit(workspace, _deployed(name, row), question, answer)
    return msgspec.structs.replace(found, receipt=receipt)


def _commit(
    workspace: Workspace, row: ListedSensor, question: EvaluateSensor, answer: Evaluated
) -> Receipt:
    if row.pushed:
        name, payload = row.name, question.payload
        return push_message(workspace, name, payload, message_id=question.eval_id).receipt
    seen = DueSensor(
        definition=row.definition, row=row.state, seq=question.seq, now=workspace.now()
    )
    trigger = PollTrigger(poll_epoch=epoch_of(seen))
    return workspace.submit(*evaluated(seen, question.eval_id, trigger, answer)).checked()


def _standing(workspace: Workspace, name: str) -> tuple[int, ListedSensor | None]:
    """What was published, and the sensor if it is deployed; one need not be, to be tried.

    An evaluator waits for the publication of whatever it is told to know, so that is the moment.
    """

    def found(snapshot: Snapshot) -> tuple[int, ListedSensor | None]:
        row = next((row for row in all_sensors(snapshot) if row.name == name), None)
        return snapshot.applied_seq, row

    try:
        return workspace.read(found)
    except NotFound:
        return 0, None  # nothing was ever written there


def _deployed(name: str, row: ListedSensor | None) -> ListedSensor:
    if row is None:
        raise NotFound(
            f"there is no sensor {name} in this workspace",
            remedy="deploy it with `servo dev`, or evaluate it without committing",
        )
    return row


def _told(name: str, answer: Evaluated) -> SensorEvaluation:
    return SensorEvaluation(
        sensor_id=name,
        status=status_of(answer),
        message=answer.error or answer.skipped,
        cursor=answer.cursor,
        runs=previews_of(answer.runs),
        partitions=list(answer.dynamic),
        reported=list(answer.reported),
    )
