"""Backfills as operations on a workspace in memory; planned by asking an evaluator."""

import logging
from datetime import datetime

import msgspec
import pytest

from servo import (
    AssetDep,
    Definitions,
    PartitionMapping,
    StaticPartitionMapping,
    StaticPartitionsDefinition,
    asset,
    materialize,
)
from servo.code.evaluator.answering import EvaluatorHere
from servo.code.evaluator.loaded_location import EvaluatorEnvironment, LoadedLocation
from servo.code.evaluator.messages import (
    Evaluated,
    EvaluatedMany,
    EvaluatorAnswer,
    EvaluatorQuestion,
)
from servo.code.evaluator.messages import answers as answers_decoder
from servo.code.evaluator.messages import questions as questions_decoder
from servo.code.evaluator.plan_store import PlanStore
from servo.core.events.backfills import BackfillState
from servo.errors import Conflict, Internal, Invalid, NotFound, Unavailable
from servo.operations.backfill_requests import (
    Asked,
    Choice,
    create_backfill,
    preview_backfill,
    retry_backfill,
)
from servo.operations.backfills import (
    cancel_backfill,
    get_backfill,
    is_idle,
    list_backfills,
    pause_backfill,
    resume_backfill,
)
from servo.operations.deployments import deploy_unless_led
from servo.operations.interface.evaluating import NO_SALT, Evaluates
from servo.operations.interface.listing import Page
from servo.operations.status import get_status
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.definitions.project import Project
from servo.sdk.triggers.resolution import declared
from servo.testing.builders import START
from servo.testing.operating import workspace_of
from servo.workspace.address import Address
from servo.workspace.channels import AnyChannel
from servo.workspace.composition import in_memory
from servo.workspace.instance.instance import ServoInstance
from servo.workspace.workspace import Workspace

ADDRESS = Address("memory://backfills")
ALL = Asked(choice=Choice(which="all"), request_id="one", chunk_size=2)


@asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]))
def letter() -> int:
    return 1


@asset
def whole() -> int:
    return 1


PROJECT = Definitions([letter, whole]).project()


@pytest.fixture
def workspace() -> Workspace:
    world = in_memory()
    return Workspace(ADDRESS, world, AnyChannel(ADDRESS, world))


class OverASocket:
    """An evaluator whose questions and answers are sent as bytes, as to a process of its own."""

    def __init__(self, evaluator: EvaluatorHere) -> None:
        self.evaluator = evaluator

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        arrived = questions_decoder.decode(msgspec.msgpack.encode(question))
        return answers_decoder.decode(msgspec.msgpack.encode(self.evaluator.ask(arrived, seconds)))


@pytest.fixture
def evaluator(workspace: Workspace) -> Evaluates:
    return evaluator_of(workspace, PROJECT)


def evaluator_of(workspace: Workspace, project: Project) -> Evaluates:
    around = EvaluatorEnvironment(
        clock=workspace.clock,
        entropy=workspace.entropy,
        log=logging.getLogger("test"),
        environ={},
        instance=lambda: None,
    )
    records = PlanStore(store=workspace.store, paths=workspace.paths, salt=NO_SALT)
    return OverASocket(EvaluatorHere(LoadedLocation(project, records, around)))


def test_a_preview_says_what_there_would_be_and_creates_nothing(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    found = preview_backfill(workspace, evaluator, ALL)
    assert (found.assets, found.partitions, found.chunks) == (("letter",), ("a", "b", "c"), 2)
    assert (found.materialized, found.missing, found.failed) == (0, 3, 0)
    with pytest.raises(NotFound):
        _ = list_backfills(workspace, Page(limit=5))


def test_the_evaluator_refuses_with_the_kind_and_the_remedy(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    with pytest.raises(NotFound, match="no asset is selected by tag:none; see `servo list`"):
        _ = preview_backfill(workspace, evaluator, ALL, ["tag:none"])
    with pytest.raises(NotFound, match="has no partition 'z'"):
        _ = preview_backfill(
            workspace, evaluator, Asked(choice=Choice(keys=("z",)), request_id="x")
        )
    with pytest.raises(
        Invalid,
        match="no partitions were selected; pass keys, a range with",
    ):
        _ = preview_backfill(workspace, evaluator, Asked(choice=Choice(), request_id="x"))


class Answering:
    def __init__(self, answer: EvaluatorAnswer) -> None:
        self._answer = answer

    def ask(self, question: EvaluatorQuestion, seconds: float) -> EvaluatorAnswer:
        del question, seconds
        return self._answer


def test_an_evaluator_that_cannot_answer_is_told_from_one_that_refuses(
    workspace: Workspace,
) -> None:
    with pytest.raises(Unavailable, match="ended with 7"):
        _ = preview_backfill(workspace, Answering(Evaluated(error="the process ended with 7")), ALL)
    with pytest.raises(Internal, match="PlanBackfill was answered with EvaluatedMany"):
        _ = preview_backfill(workspace, Answering(EvaluatedMany(answers=())), ALL)


def test_a_request_creates_one_backfill_however_often_it_is_sent(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    first = create_backfill(workspace, evaluator, ALL)
    assert first is not None
    assert (first.partitions, first.runs, first.receipt.applied) == (3, 2, True)
    again = create_backfill(workspace, evaluator, ALL)
    assert again is not None
    assert (again.backfill_id, again.receipt.repeated) == (first.backfill_id, True)
    [row] = list_backfills(workspace, Page(limit=5)).items
    assert (row.backfill_id, row.state) == (first.backfill_id, BackfillState.RUNNING)
    other = msgspec.structs.replace(ALL, choice=Choice(keys=("a",)))
    with pytest.raises(Conflict, match=r"'one' was used for .*; use another request id"):
        _ = create_backfill(workspace, evaluator, other)


def test_nothing_to_do_creates_nothing(workspace: Workspace, evaluator: Evaluates) -> None:
    deploy_unless_led(workspace, "code.py", declared(PROJECT))
    failed = msgspec.structs.replace(ALL, choice=Choice(which="failed"))
    assert create_backfill(workspace, evaluator, failed) is None
    assert list_backfills(workspace, Page(limit=5)).items == []


def versioned(version: str) -> AssetsDefinition:
    @asset(partitions_def=StaticPartitionsDefinition(["a", "b", "c"]), code_version=version)
    def edited() -> str:
        return version

    return edited


def test_what_is_stale_is_told_by_the_code_as_it_is_and_not_as_it_was_deployed() -> None:
    instance = ServoInstance.ephemeral()
    workspace = workspace_of(instance, actor="user:ada@laptop")
    _ = materialize([versioned("1")], instance=instance, partition_keys=["a", "b"])
    stale = Asked(choice=Choice(which="stale"), request_id="one", location="code.py")
    before = get_status(workspace).applied_seq
    for version, partitions in (("1", ("c",)), ("2", ("a", "b", "c"))):
        evaluator = evaluator_of(workspace, Definitions([versioned(version)]).project())
        assert preview_backfill(workspace, evaluator, stale).partitions == partitions
    assert get_status(workspace).applied_seq == before  # a preview writes nothing
    begun = create_backfill(workspace, evaluator, stale)
    assert begun is not None
    assert begun.partitions == 3


def downstream(mapping: PartitionMapping | None = None) -> list[AssetsDefinition]:
    letters = StaticPartitionsDefinition(["a", "b", "c"])

    @asset(partitions_def=letters)
    def above() -> str:
        return "x"

    @asset(partitions_def=letters, deps=[AssetDep(above, partition_mapping=mapping)])
    def below() -> str:
        return "y"

    return [above, below]


def test_what_is_stale_follows_dependencies_that_are_not_deployed_yet() -> None:
    instance = ServoInstance.ephemeral()
    workspace = workspace_of(instance, actor="user:ada@laptop")
    [above, below] = downstream()
    _ = materialize([above, below], instance=instance, partition_keys=["a", "b", "c"])
    _ = materialize([above], instance=instance, partition_keys=["a"])
    stale = Asked(choice=Choice(which="stale"), request_id="one", location="code.py")
    for mapping, partitions in (
        (None, ("a",)),
        (StaticPartitionMapping({"a": "b"}), ("b",)),
    ):
        project = Definitions(downstream(mapping)).project()
        found = preview_backfill(workspace, evaluator_of(workspace, project), stale, ["below"])
        assert found.partitions == partitions


def test_a_backfill_has_the_tags_of_its_request_of_the_project_and_of_its_code(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    asked = msgspec.structs.replace(
        ALL,
        labels={"team": "shop"},
        default_tags={"team": "none", "env": "dev"},
        location="code.py",
    )
    begun = create_backfill(workspace, evaluator, asked)
    assert begun is not None
    found = get_backfill(workspace, begun.backfill_id).backfill
    assert found.labels == {
        "team": "shop",
        "env": "dev",
        "servo/code": "code.py",
        "servo/partitions": "all",
    }


@pytest.mark.parametrize(
    ("state", "active", "finished", "idle"),
    [
        (BackfillState.RUNNING, 0, None, False),
        (BackfillState.PAUSED, 1, None, False),
        (BackfillState.PAUSED, 0, None, True),
        (BackfillState.CANCELLING, 0, None, False),
        (BackfillState.SUCCEEDED, 0, START, True),
    ],
)
def test_a_backfill_is_idle_once_nothing_happens_without_a_request(
    workspace: Workspace,
    evaluator: Evaluates,
    *,
    state: BackfillState,
    active: int,
    finished: datetime | None,
    idle: bool,
) -> None:
    begun = create_backfill(workspace, evaluator, ALL)
    assert begun is not None
    row = get_backfill(workspace, begun.backfill_id).backfill
    changed = msgspec.structs.replace(row, state=state, active_chunks=active, finished_at=finished)
    assert is_idle(changed) is idle


def test_a_backfill_is_paused_resumed_and_cancelled_at_once(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    begun = create_backfill(workspace, evaluator, ALL)
    assert begun is not None
    name = begun.backfill_id
    running = workspace.read(lambda snapshot: snapshot.applied_seq)
    assert pause_backfill(workspace, name[:8]).backfill.state is BackfillState.PAUSED
    with pytest.raises(Conflict, match="is PAUSED; only a backfill that is RUNNING can be paused"):
        _ = pause_backfill(workspace, name)
    assert resume_backfill(workspace, name).backfill.state is BackfillState.RUNNING
    cancelled = cancel_backfill(workspace, name)
    assert cancelled.receipt.applied
    assert cancelled.backfill.state is BackfillState.CANCELLED
    with pytest.raises(Conflict, match="is CANCELLED"):
        _ = resume_backfill(workspace, name)
    then = get_backfill(workspace, name, as_of=running)
    assert then.backfill.state is BackfillState.RUNNING
    assert then.partitions == {"a": "waiting", "b": "waiting", "c": "waiting"}


def test_only_a_finished_backfill_with_failures_is_retried(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    begun = create_backfill(workspace, evaluator, ALL)
    assert begun is not None
    with pytest.raises(Conflict, match="has not finished; wait for it with `servo backfill wait"):
        _ = retry_backfill(workspace, begun.backfill_id)
    _ = cancel_backfill(workspace, begun.backfill_id)
    with pytest.raises(NotFound, match="failed"):
        _ = retry_backfill(workspace, begun.backfill_id)
    with pytest.raises(NotFound, match="there is no backfill bf_none"):
        _ = retry_backfill(workspace, "bf_none")


def test_what_the_code_declares_is_deployed_once(workspace: Workspace) -> None:
    deploy_unless_led(workspace, "code.py", declared(PROJECT))
    first = workspace.read(lambda snapshot: snapshot.applied_seq)
    assert workspace.read(lambda snapshot: len(snapshot.rows("assets"))) == 2
    deploy_unless_led(workspace, "code.py", declared(PROJECT))
    assert workspace.read(lambda snapshot: snapshot.applied_seq) == first


def test_a_plan_is_the_same_in_this_process_and_over_a_socket(
    workspace: Workspace, evaluator: Evaluates
) -> None:
    assert isinstance(evaluator, OverASocket)
    here = evaluator.evaluator
    assert preview_backfill(workspace, here, ALL) == preview_backfill(workspace, evaluator, ALL)
