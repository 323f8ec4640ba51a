"""What an earlier leader gave to its own workers is done again; what a queue gave goes on."""

from collections.abc import Sequence

from msgspec.structs import replace

from servo.controllers.dispatch import IdleWorker
from servo.core.actors import ActorKind, actor
from servo.core.events.envelope import Batch
from servo.core.events.runs import PlanCreated, RunRequested
from servo.core.events.tasks import TaskOutcome, TaskStarted
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec
from servo.core.state.states import TaskState
from servo.execution.outputs.store import INLINE_BYTES, OutputStore
from servo.host.recovery import Recovery
from servo.leader.assignments import Assignment, CheckOutcome, TaskResult
from servo.leader.service import Service, World
from servo.leader.workers import NoWorkers, Workers
from servo.ledger.paths import Paths
from servo.storage.memory import MemoryStore
from servo.testing.eventually import eventually
from servo.testing.leader import ListQueue
from servo.workspace.system import SystemClock, SystemEntropy

PATHS = Paths("acme", "prod")
KEY = ("run", "a:materialize")


class Silent:
    """A worker that takes one task and never says anything of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.given: list[Assignment] = []

    def idle(self) -> Sequence[IdleWorker]:
        if self.given:
            return ()
        return (IdleWorker(worker_id=self.name, exec_id=f"x-{self.name}"),)

    def assign(self, assignments: Sequence[Assignment]) -> None:
        self.given.extend(assignments)


def a_world(queue: ListQueue | None = None) -> World:
    clock = SystemClock()
    return World(MemoryStore(clock), clock, SystemEntropy(), queue)


def led_by(world: World, worker: Silent | None) -> Service:
    """A leader with this worker, which finds out what earlier ones left."""

    def workers(_: Service) -> Workers:
        return NoWorkers() if worker is None else worker

    service = Service(world, PATHS, workers=workers)
    here = () if worker is None else (worker.name,)
    outputs = OutputStore(world.store, PATHS)
    who = actor(ActorKind.WORKER, "here")
    recovery = Recovery(service.send, who, here.__contains__, outputs.result_of)
    service.watch(recovery.look)
    return service


def ask(service: Service, also_makes: tuple[str, ...] = ()) -> None:
    events = (
        RunRequested(run_id="run", run_key="run", request_fingerprint="fp"),
        PlanCreated(
            run_id="run",
            fingerprint="plan",
            tasks=(
                TaskSpec(
                    task_key=TaskKeyStr("a:materialize"), asset_key="a", also_makes=also_makes
                ),
            ),
        ),
    )
    assert service.commit(Batch(id="ask", events=events)).applied


def later(service: Service) -> None:
    """An entry behind whatever was reported when the leader took over."""
    event = RunRequested(run_id="later", run_key="later", request_fingerprint="fp")
    assert service.commit(Batch(id="later", events=(event,))).applied


def begun(world: World, also_makes: tuple[str, ...] = ()) -> Assignment:
    """A task that the worker of a leader was given and never reported; that leader has ended."""
    worker = Silent("first")
    with led_by(world, worker) as leader:
        ask(leader, also_makes)
        eventually(lambda: worker.given)
    return worker.given[0]


def test_what_workers_of_an_earlier_leader_were_doing_is_done_again_at_once() -> None:
    world, second = a_world(), Silent("second")
    _ = begun(world)
    with led_by(world, second) as leader:
        eventually(lambda: second.given)
        row = leader.engine.state.tasks.rows[KEY]
    assert (row.state, row.worker_id, row.infra_losses) == (TaskState.RUNNING, "second", 1)


def commit_output(world: World, work: Assignment, **fields: str) -> TaskResult:
    """What a worker does last before it reports: commit its output with the result."""
    outputs, exec_id = OutputStore(world.store, PATHS), work.exec_id
    staged = outputs.stage("a", exec_id, "made")
    result = TaskResult(
        exec_id=exec_id,
        outcome=TaskOutcome.SUCCEEDED,
        output=replace(staged.output, metadata='{"n":{"type":"int","value":3}}', **fields),
        checks=(CheckOutcome(name="is_there", passed=True),),
    )
    outputs.commit((staged,), result)
    return result


def test_a_result_that_was_committed_and_never_reported_is_adopted() -> None:
    world, second = a_world(), Silent("second")
    result = commit_output(world, begun(world))
    with led_by(world, second) as leader:
        state = leader.engine.state
        eventually(lambda: state.tasks.rows[KEY].state is TaskState.SUCCEEDED)
        row, asset = state.tasks.rows[KEY], state.assets.rows["a"]
        (made,) = state.materializations.rows.values()
        (check,) = state.check_results.rows.values()
    assert not second.given
    assert (row.exec_id, row.attempt, row.infra_losses) == ("x-first", 1, 0)
    assert result.output is not None
    assert (asset.last_output_uri, asset.last_content_hash) == (
        result.output.uri,
        result.output.content_hash,
    )
    assert (made.metadata, check.check_name) == (result.output.metadata, "is_there")


def test_the_result_of_another_asset_of_the_same_task_is_found_too() -> None:
    world, second = a_world(), Silent("second")
    exec_id = begun(world, also_makes=("b",)).exec_id
    outputs = OutputStore(world.store, PATHS)
    staged = outputs.stage("b", exec_id, "made")
    only = replace(staged.output, asset_key="b")
    result = TaskResult(exec_id=exec_id, outcome=TaskOutcome.SUCCEEDED, outputs=(only,))
    outputs.commit((staged,), result)
    with led_by(world, second) as leader:
        state = leader.engine.state
        eventually(lambda: state.tasks.rows[KEY].state is TaskState.SUCCEEDED)
        assert state.assets.rows["b"].last_output_uri == only.uri
    assert not second.given


def test_a_committed_result_that_the_leader_refuses_is_done_again() -> None:
    world, second = a_world(), Silent("second")
    _ = commit_output(world, begun(world), partition_key="day=d:2026-01-01")
    with led_by(world, second):
        eventually(lambda: second.given)


def test_data_without_a_marker_is_not_adopted() -> None:
    world, second = a_world(), Silent("second")
    outputs = OutputStore(world.store, PATHS)
    _ = outputs.stage("a", begun(world).exec_id, "x" * (INLINE_BYTES + 1))
    with led_by(world, second):
        eventually(lambda: second.given)


def test_what_the_own_workers_do_goes_on_when_the_same_process_takes_over_again() -> None:
    world, worker = a_world(), Silent("mine")
    with led_by(world, worker) as leader:
        ask(leader)
        eventually(lambda: worker.given)
    with led_by(world, worker) as leader:
        later(leader)
        row = leader.engine.state.tasks.rows[KEY]
    assert (row.state, row.exec_id) == (TaskState.RUNNING, "x-mine")


def test_what_was_claimed_from_a_queue_outlives_the_leader() -> None:
    queue = ListQueue()
    world = a_world(queue)
    with led_by(world, None) as leader:
        ask(leader)
        (sent,) = eventually(lambda: queue.sent)
        claim = TaskStarted(
            run_id="run",
            task_key="a:materialize",
            attempt_id=sent.attempt_id,
            exec_id="x",
            worker_id="remote",
        )
        assert leader.commit(Batch(id="claim", events=(claim,))).applied
    with led_by(world, None) as leader:
        later(leader)
        row = leader.engine.state.tasks.rows[KEY]
    assert (row.state, row.exec_id) == (TaskState.RUNNING, "x")
