"""Hooks: called after the outcome is decided, and never part of it."""

import logging
import sys
from typing import Any

import pytest
from msgspec.structs import replace

from servo import (
    AssetCheckResult,
    AssetCheckSpec,
    AssetOut,
    ConfigurableIOManager,
    ConfigurableResource,
    Failure,
    HookContext,
    InputContext,
    MaterializeResult,
    OutputContext,
    RetryPolicy,
    RetryRequested,
    ServoInstance,
    Skip,
    asset,
    build_hook_context,
    define_asset_job,
    failure_hook,
    materialize,
    multi_asset,
    success_hook,
)
from servo.core.events.tasks import CommittedOutput, TaskOutcome
from servo.core.keys import AssetKey
from servo.core.tags import JOB_LABEL
from servo.errors import Invalid
from servo.execution.attempt import failed
from servo.execution.hooks import Hooks
from servo.leader.assignments import Assignment, TaskResult
from servo.sdk.definitions.project import Project

SEEN: list[Any] = []


def no_value(uri: str, content_hash: str) -> None:
    """Nothing was stored."""
    raise AssertionError((uri, content_hash))


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()


@success_hook
def tell_success(context: HookContext) -> None:
    SEEN.append(("success", context.op.name, str(context.asset_key), context.step_key))


@failure_hook(name="tell")
def tell_failure(context: HookContext) -> None:
    SEEN.append(("failure", context.op.name, repr(context.op_exception)))


BOTH = {tell_success, tell_failure}


def test_a_hook_is_called_for_the_end_it_waits_for() -> None:
    @asset(key="shop/good", hooks=BOTH)
    def good() -> int:
        return 1

    @asset(hooks=BOTH)
    def bad() -> int:
        raise KeyError("no")

    _ = materialize([good, bad], raise_on_error=False)
    assert sorted(SEEN) == [
        ("failure", "bad", "KeyError('no')"),
        ("success", "good", "shop.good", "shop/good:materialize"),
    ]


def test_a_skip_is_neither() -> None:
    @asset(hooks=BOTH)
    def skips() -> Skip:
        return Skip("nothing new")

    _ = materialize([skips], raise_on_error=False)
    assert SEEN == []


def test_a_failure_is_told_when_no_retry_follows() -> None:
    tries: list[int] = []

    @asset(hooks=BOTH, retry_policy=RetryPolicy(max_retries=2))
    def twice() -> int:
        tries.append(1)
        raise ValueError(len(tries))

    @asset(hooks=BOTH, retry_policy=RetryPolicy(max_retries=2))
    def at_once() -> int:
        raise Failure("no", allow_retries=False)

    @asset(hooks=BOTH)
    def asks() -> int:
        raise RetryRequested(max_retries=1)

    _ = materialize([twice, at_once, asks], raise_on_error=False)
    assert sorted(SEEN) == [
        ("failure", "asks", repr(RetryRequested(max_retries=1))),
        ("failure", "at_once", repr(Failure("no"))),
        ("failure", "twice", "ValueError(3)"),
    ]


def test_attempts_that_were_lost_are_none_of_the_retries() -> None:
    @asset(hooks=BOTH, retry_policy=RetryPolicy(max_retries=1))
    def made() -> None: ...

    hooks = Hooks(Project([made]), logging.getLogger("test"), {}, load=no_value)
    error = ValueError("no")
    work = Assignment(
        exec_id="x", run_id="r", task_key="t", asset_key="made", attempt=2, attempt_id="a",
        fencing_token=1,
    )  # fmt: skip
    hooks.after(work, AssetKey("made"), failed("x", error), error)
    assert SEEN == []  # the attempt before was lost with its worker: a retry follows
    hooks.after(replace(work, attempt=3, failures=1), AssetKey("made"), failed("x", error), error)
    assert SEEN == [("failure", "made", "ValueError('no')")]


class Slack(ConfigurableResource[Any]):
    channel: str

    def teardown_after_execution(self, context: Any) -> None:
        del context
        SEEN.append("closed")


@success_hook(required_resource_keys={"slack"})
def post(context: HookContext) -> None:
    SEEN.append((context.resources.slack.channel, dict(context.op_output_values), context.run_id))
    assert context.required_resource_keys == {"slack"}


def test_a_hook_has_its_resources_and_the_values() -> None:
    @asset(hooks={post})
    def made() -> list[int]:
        return [1]

    config = {"resources": {"slack": {"config": {"channel": "#other"}}}}
    result = materialize([made], resources={"slack": Slack(channel="#data")}, run_config=config)
    post_of_run = ("#other", {"result": [1]}, result.run_id)
    assert [post_of_run, "closed"] == SEEN


def test_a_hook_can_ask_the_instance() -> None:
    @success_hook
    def asks(context: HookContext) -> None:
        SEEN.append(context.instance)

    @asset(hooks={asks})
    def made() -> None: ...

    instance = ServoInstance.ephemeral()
    _ = materialize([made], instance=instance)
    assert [instance] == SEEN


@pytest.mark.parametrize("error", [ValueError("hook"), SystemExit(3)])
def test_what_a_hook_raises_is_logged_and_changes_nothing(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    @success_hook
    def breaks(_: HookContext) -> None:
        raise error

    @asset(hooks={breaks, tell_success, post})
    def made() -> int:
        return 7

    with caplog.at_level(logging.ERROR):
        result = materialize([made])
    assert result.asset_value("made") == 7
    assert [seen[0] for seen in SEEN] == ["success"]
    assert "the hook breaks failed; the result of made is not affected: Traceback" in caplog.text
    assert "there is no resource 'slack'" in caplog.text


def test_what_interrupts_an_execution_interrupts_its_hooks() -> None:
    @success_hook
    def interrupted(_: HookContext) -> None:
        raise KeyboardInterrupt

    @asset(hooks={interrupted})
    def made() -> None: ...

    work = Assignment(
        exec_id="x", run_id="r", task_key="t", asset_key="made", attempt=1, attempt_id="a",
        fencing_token=1,
    )  # fmt: skip
    hooks = Hooks(Project([made]), logging.getLogger("test"), {}, load=no_value)
    done = TaskResult(exec_id="x", outcome=TaskOutcome.SUCCEEDED)
    with pytest.raises(KeyboardInterrupt):
        hooks.after(work, AssetKey("made"), done)


class Elsewhere(ConfigurableIOManager):
    def handle_output(self, context: OutputContext, obj: Any) -> None: ...
    def load_input(self, context: InputContext) -> Any: ...


def test_values_that_an_io_manager_stored_are_its_own(caplog: pytest.LogCaptureFixture) -> None:
    @success_hook
    def asks(context: HookContext) -> None:
        SEEN.append(context.op_output_values)

    @asset(hooks={asks}, io_manager_key="lake")
    def stored() -> int:
        return 1

    @asset(hooks={asks})
    def nothing() -> None: ...

    _ = materialize([stored, nothing], resources={"lake": Elsewhere()})
    assert SEEN == [{"result": None}]
    assert "the value was stored by lake, an IO manager of your own" in caplog.text


def test_every_output_of_a_function_can_be_asked_for() -> None:
    @success_hook
    def asks(context: HookContext) -> None:
        SEEN.append(dict(context.op_output_values))

    @multi_asset(outs={"a": AssetOut(key="x/y"), "b": AssetOut()}, hooks={asks})
    def both() -> tuple[int, str]:
        return 1, "two"

    _ = materialize([both])
    assert SEEN == [{"a": 1, "b": "two"}]


def test_the_hooks_of_a_job_are_called_for_its_runs() -> None:
    @asset(hooks={tell_success})
    def made() -> int:
        raise AssertionError("not called here")

    job = define_asset_job("nightly", hooks=[tell_success, tell_failure])
    project = Project([made], jobs=[job])
    hooks = Hooks(project, logging.getLogger("test"), {}, load=no_value)
    work = Assignment(
        exec_id="x", run_id="r", task_key="t", asset_key="made", attempt=1, attempt_id="a",
        fencing_token=1, run_tags={JOB_LABEL: "nightly"},
    )  # fmt: skip
    error = ValueError("no")
    hooks.after(work, AssetKey("made"), failed("x", error), error)
    good = TaskResult(
        exec_id="x", outcome=TaskOutcome.SUCCEEDED, output=CommittedOutput(materialization_id="x")
    )
    hooks.after(work, AssetKey("made"), good)
    assert SEEN == [("failure", "made", "ValueError('no')"), ("success", "made", "made", "t")]


# --- called by a test -----------------------------------------------------------------------------


def test_a_hook_can_be_called_with_a_context_that_was_built() -> None:
    error = ValueError("no")
    tell_failure(build_hook_context(op="orders", op_exception=error))
    assert SEEN == [("failure", "orders", "ValueError('no')")]
    SEEN.clear()
    with build_hook_context(
        resources={"slack": Slack(channel="#x")}, run_id="r", op_output_values={"result": 1}
    ) as context:
        post(context)
    assert SEEN == [("#x", {"result": 1}, "r"), "closed"]


def test_a_built_context_says_what_it_was_given() -> None:
    context = build_hook_context(job_name="nightly", asset_key="orders", instance="i")
    assert (context.job_name, context.asset_key) == ("nightly", AssetKey("orders"))
    assert context.instance == "i"
    assert context.required_resource_keys == frozenset()
    with pytest.raises(Invalid, match="has no asset"):
        _ = build_hook_context().asset_key
    with pytest.raises(Invalid, match="no instance"):
        _ = build_hook_context().instance


def test_a_hook_that_is_called_wrongly_says_so() -> None:
    with pytest.raises(Invalid, match=r"needs the resource 'slack'; use build_hook_context"):
        post(build_hook_context())
    with pytest.raises(Invalid, match=r"was called with 3; call it with build_hook_context"):
        post(3)  # pyright: ignore[reportArgumentType] - it is wrong


def test_what_is_no_hook_is_refused() -> None:
    with pytest.raises(Invalid, match=r"asset made: .* is not a hook; decorate a function"):

        @asset(hooks={sys.exit})
        def made() -> None: ...


def test_one_hook_alone_is_no_set_of_hooks() -> None:
    with pytest.raises(
        Invalid, match=r"asset made: hooks is a single hook, not a set; write hooks=\{tell\}"
    ):

        @asset(hooks=tell_failure)
        def made() -> None: ...


def test_a_check_that_blocks_is_the_exception_of_the_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    @failure_hook
    def why(context: HookContext) -> None:
        SEEN.append(context.op_exception)

    @asset(hooks={why}, check_specs=[AssetCheckSpec("full", asset="made", blocking=True)])
    def made() -> MaterializeResult:
        return MaterializeResult(value=1, check_results=[AssetCheckResult(passed=False)])

    _ = materialize([made], raise_on_error=False)
    (seen,) = SEEN
    assert isinstance(seen, Failure)
    assert str(seen) == "a blocking check failed: full"
    assert "check full of made failed" in caplog.messages
