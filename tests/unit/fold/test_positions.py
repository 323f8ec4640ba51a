"""Every event has a position, and answers, rows and the index of batches agree on it."""

from msgspec.structs import replace

from servo.core.events.assets import AssetReported
from servo.core.events.codec import decode_entry
from servo.core.events.envelope import Answer, Batch
from servo.core.events.quotas import PoolLimitSet
from servo.core.events.runs import PlanCreated, RunCancelRequested, RunRequested
from servo.core.events.sensors import (
    PollTrigger,
    SensorEvalStatus,
    SensorEvaluated,
    SensorMessageReceived,
    SensorMode,
    SensorUpserted,
)
from servo.core.fold.apply import apply_entry
from servo.core.positions import Position
from servo.core.state.state import State
from servo.testing.builders import Story, dump, specs


def request(name: str) -> RunRequested:
    return RunRequested(run_id=f"run_{name}", run_key=f"key-{name}", request_fingerprint="fp")


def plan(name: str) -> PlanCreated:
    return PlanCreated(run_id=f"run_{name}", fingerprint="plan", tasks=specs({"a": ()}))


def replayed(story: Story) -> State:
    state = State("acme", "prod")
    for _, data, _ in story.entries:
        apply_entry(state, *decode_entry(data, what="entry"))
    return state


def test_events_are_counted_over_all_batches_of_an_entry() -> None:
    story = Story()
    answers = story.commit(
        story.batch(request("a"), plan("a")), story.batch(request("b")), story.batch(request("c"))
    )
    assert [answer.position for answer in answers] == [
        Position(1, 0),
        Position(1, 2),
        Position(1, 3),
    ]
    runs = story.state.runs.rows
    assert [runs[f"run_{n}"].request_position for n in "abc"] == ["1.0", "1.2", "1.3"]
    index = [(row.batch_index, row.first_index) for row in story.state.ledger_index.values()]
    assert index == [(0, 0), (1, 2), (2, 3)]


def test_a_batch_that_is_not_written_takes_no_place() -> None:
    story = Story()
    story.tell(request("a"))
    answers = story.commit(
        story.batch(RunCancelRequested(run_id="run_unknown")),
        story.batch(request("a")),
        story.batch(request("b")),
    )
    assert [answer.position for answer in answers] == [None, Position(1, 0), Position(2, 0)]


def test_a_replay_gives_every_event_the_same_position() -> None:
    story = Story()
    story.commit(story.batch(request("a"), plan("a")), story.batch(request("b")))
    story.tell(request("c"), actor="user:ada@laptop", correlation="order-7", cause="1.2")
    assert dump(replayed(story)) == dump(story.state)


def test_a_request_that_is_repeated_is_answered_with_its_first_position() -> None:
    story = Story()
    story.tell(PoolLimitSet(pool="p", limit=1))
    first = story.tell(request("a"), plan("a"))
    again = story.tell(request("a"), plan("a"))
    assert first.position == Position(2, 0)
    assert again == replace(first, repeated=True)


def test_a_command_under_the_same_request_id_is_answered_with_its_first_position() -> None:
    story = Story()
    story.tell(request("a"))
    command = PoolLimitSet(pool="p", limit=1)
    first = story.commit(story.batch(request("b")), story.batch(command, request_id="mine"))[1]
    again = story.tell(command, request_id="mine")
    assert first.position == Position(2, 1)
    assert again == replace(first, repeated=True)


def test_a_repetition_that_no_row_remembers_has_no_position() -> None:
    story = Story()
    story.tell(request("a"), plan("a"))
    again = story.tell(plan("a"))
    assert again == Answer(
        status=again.status, seq=again.seq, data={"run_id": "run_a"}, repeated=True
    )
    assert again.position is None


def test_a_position_is_that_of_the_first_event_and_of_no_other() -> None:
    story = Story()
    story.tell(request("a"), plan("a"))
    # The plan comes first here and nobody remembers where it was; the request is known.
    assert story.tell(plan("a"), request("a")).position is None


def test_a_sensor_evaluation_that_is_repeated_has_its_first_position() -> None:
    story = Story()
    story.tell(SensorUpserted(sensor_id="files"))
    looked = SensorEvaluated(
        sensor_id="files",
        eval_id="e1",
        trigger=PollTrigger(poll_epoch=1),
        expected_state_version=0,
        status=SensorEvalStatus.TRIGGERED,
        run_keys=("key-a",),
    )
    first = story.tell(looked, request("a"))
    assert story.tell(looked, request("a")).position == first.position == Position(2, 0)


def test_a_batch_that_waited_keeps_the_position_at_which_it_was_written() -> None:
    story = Story()
    early = story.batch(RunCancelRequested(run_id="run_a"), request("b"), parkable=True)
    (parked,) = story.commit(early)
    assert parked.position == Position(1, 0)
    assert story.tell(request("a"), plan("a")).position == Position(2, 0)
    assert story.run("run_b").request_position == "1.1"
    rows = {row.batch_id: row for row in story.state.ledger_index.values() if row.seq == 2}
    assert rows[early.id].first_index is None
    assert dump(replayed(story)) == dump(story.state)


def test_a_batch_that_is_parked_twice_was_written_once() -> None:
    story = Story()
    early = Batch(id="early", events=(RunCancelRequested(run_id="run_a"),), parkable=True)
    story.commit(early)
    assert story.commit(early)[0].position is None


def test_an_output_knows_the_position_of_its_report() -> None:
    story = Story()
    story.plan({"a": (), "b": ()})
    story.start("a")
    story.start("b")
    story.commit(story.batch(story.finished("a")), story.batch(story.finished("b")))
    made = {row.asset_key: row for row in story.state.materializations.values()}
    assert [(made[f"ns/{n}"].created_seq, made[f"ns/{n}"].created_index) for n in "ab"] == [
        (story.state.seq, 0),
        (story.state.seq, 1),
    ]


def test_an_output_of_a_batch_that_waited_is_not_at_that_place_of_the_later_entry() -> None:
    story = Story()
    told = AssetReported(asset_key="ns/x", materialization_id="m", run_id="run_a", task_key="t")
    early = story.batch(RunCancelRequested(run_id="run_a"), told, parkable=True)
    story.commit(early)
    story.tell(request("a"), plan("a"))
    made = story.state.materializations.rows["m"]
    assert (made.created_seq, made.created_index) == (2, None)


def test_what_a_batch_says_of_its_origin_is_in_the_index() -> None:
    story = Story()
    story.tell(
        request("a"),
        request_id="r-1",
        actor="user:ada@laptop",
        correlation="order-7",
        cause="9.9",
    )
    (row,) = story.state.ledger_index.values()
    assert (row.actor, row.request_id, row.correlation, row.cause) == (
        "user:ada@laptop",
        "r-1",
        "order-7",
        "9.9",
    )
    run = story.run("run_a")
    assert (run.requested_by, run.correlation, run.cause) == ("user:ada@laptop", "order-7", "9.9")


def test_a_request_without_a_correlation_begins_one() -> None:
    story = Story()
    story.tell(request("a"))
    answers = story.commit(story.batch(request("b")), story.batch(request("c"), request("d")))
    assert answers[1].applied
    runs = story.state.runs.rows
    assert [runs[f"run_{n}"].correlation for n in "abcd"] == ["1.0", "2.0", "2.1", "2.1"]
    assert [runs[f"run_{n}"].cause for n in "abcd"] == ["", "", "", ""]


def test_a_message_remembers_where_it_was_received() -> None:
    story = Story()
    story.tell(SensorUpserted(sensor_id="files", mode=SensorMode.PUSH))
    received = [SensorMessageReceived(sensor_id="files", message_id=f"m{n}") for n in (1, 2)]
    story.tell(*received, correlation="order-7")
    rows = story.state.sensor_messages.values()
    assert [(row.request_position, row.correlation) for row in rows] == [
        ("2.0", "order-7"),
        ("2.1", "order-7"),
    ]
