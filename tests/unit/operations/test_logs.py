"""Operations on logs: whose output is given, and what follows while a run goes on."""

from collections.abc import Callable

import pytest

from servo.core.events.runs import PlanCreated
from servo.errors import NotFound
from servo.operations.logs import OVERLAP, LogChunk, LogQuery, follow_logs, get_logs
from servo.testing.builders import specs, task_key
from servo.testing.operating import workspace_told
from servo.testing.workspaces import StoredStory
from servo.workspace.workspace import Workspace

NEWEST = LogQuery()


@pytest.fixture
def story() -> StoredStory:
    return StoredStory()


@pytest.fixture
def workspace(story: StoredStory) -> Workspace:
    return workspace_told(story)


def printed(story: StoredStory, name: str, data: str | bytes, run_id: str = "run_1") -> None:
    """Store what the execution of a task has printed so far."""
    row = story.task(name, run_id)
    key = story.paths.log(run_id, row.task_key, row.attempt, row.exec_id)
    _ = story.store.put(key, data.encode() if isinstance(data, str) else data)


def strings(chunks: list[LogChunk]) -> list[tuple[str, str]]:
    return [(one.task_key, one.text) for one in chunks]


def one_after_another(*steps: Callable[[], object]) -> Callable[[], object]:
    """What happens while somebody waits: one step each time, and never more waits than steps."""
    left = iter(steps)

    def wait() -> object:
        return next(left)()

    return wait


# --- afterwards -----------------------------------------------------------------------------------


def test_the_newest_run_is_meant_unless_another_is_named(
    story: StoredStory, workspace: Workspace
) -> None:
    for run_id, said in (("run_1", "old\n"), ("run_2", "new\n")):
        _ = story.plan({"a": ()}, run_id)
        _ = story.execute("a", run_id=run_id)
        printed(story, "a", said, run_id)
        story.wait(seconds=1)
    _ = story.publish()
    assert get_logs(workspace, NEWEST).items == [
        LogChunk(
            run_id="run_2", task_key=task_key("a"), attempt=1, exec_id="exec-a-1", text="new\n"
        )
    ]
    assert strings(get_logs(workspace, LogQuery(run="run_1")).items) == [(task_key("a"), "old\n")]


def test_an_asset_alone_is_one_of_the_newest_run(story: StoredStory, workspace: Workspace) -> None:
    _ = story.plan({"a": (), "b": ()})
    for name in "ab":
        _ = story.execute(name)
        printed(story, name, f"this is {name}")
    _ = story.publish()
    only_b = [(task_key("b"), "this is b")]
    assert strings(get_logs(workspace, LogQuery(run="b")).items) == only_b
    assert strings(get_logs(workspace, LogQuery(run="run_1", asset="b")).items) == only_b
    assert strings(get_logs(workspace, LogQuery(asset="ns/b")).items) == only_b
    with pytest.raises(NotFound, match="there is no run c"):
        _ = get_logs(workspace, LogQuery(run="c"))
    with pytest.raises(NotFound, match="there is no asset 'c'"):
        _ = get_logs(workspace, LogQuery(run="run_1", asset="c"))


def test_without_any_run_the_error_says_how_to_start_one(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.publish()
    with pytest.raises(NotFound, match="start one with `servo materialize`"):
        _ = get_logs(workspace, NEWEST)


def test_of_the_past_only_executions_are_shown_that_had_begun(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.plan({"a": (), "b": ()})
    before = story.state.seq
    _ = story.execute("a")
    printed(story, "a", "this is a")
    between = story.state.seq
    _ = story.execute("b")
    printed(story, "b", "this is b")
    _ = story.publish()
    assert len(get_logs(workspace, NEWEST).items) == 2
    assert strings(get_logs(workspace, NEWEST, as_of=between).items) == [
        (task_key("a"), "this is a")
    ]
    assert get_logs(workspace, NEWEST, as_of=before).items == []


# --- while it runs --------------------------------------------------------------------------------


def test_each_look_gives_what_is_new_until_the_run_has_ended(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.plan({"a": ()})
    _ = story.start("a")
    printed(story, "a", "one\n")
    _ = story.publish()

    def more() -> None:
        printed(story, "a", "one\ntwo\n")

    def nothing() -> None: ...

    def end() -> None:
        printed(story, "a", "one\ntwo\nthree")
        _ = story.finish("a")
        _ = story.publish()

    found = list(follow_logs(workspace, NEWEST, wait=one_after_another(more, nothing, end)))
    assert [(one.offset, one.text) for one in found] == [(0, "one\n"), (4, "two\n"), (8, "three")]


def test_what_is_printed_between_the_last_look_and_the_end_is_given_too(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.plan({"a": ()})
    _ = story.start("a")
    _ = story.publish()

    def end() -> None:
        _ = story.finish("a")
        _ = story.publish()
        printed(story, "a", "last words")

    found = list(follow_logs(workspace, NEWEST, wait=one_after_another(end)))
    assert strings(found) == [(task_key("a"), "last words")]


def test_the_first_run_is_waited_for(story: StoredStory, workspace: Workspace) -> None:
    def publish() -> None:
        _ = story.publish()

    def run() -> None:
        _ = story.plan({"a": ()})
        _ = story.execute("a")
        printed(story, "a", "hello")
        _ = story.publish()

    found = list(follow_logs(workspace, NEWEST, wait=one_after_another(publish, run)))
    assert strings(found) == [(task_key("a"), "hello")]


def test_an_asset_that_is_not_planned_yet_is_waited_for_and_others_are_left_out(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.request()
    _ = story.publish()
    of_another = story.paths.log("run_1", task_key("c"), 1, "exec-c-1")
    _ = story.store.put(of_another, b"this is c")
    query = LogQuery(run="run_1", asset="b")
    assert get_logs(workspace, query).items == []

    def plan() -> None:
        tasks = specs({"a": (), "b": ()})
        assert story.tell(PlanCreated(run_id="run_1", fingerprint="plan", tasks=tasks)).applied
        _ = story.publish()

    def both() -> None:
        for name in "ab":
            _ = story.start(name)
            printed(story, name, f"this is {name}")
        _ = story.publish()

    def finish() -> None:
        for name in "ab":
            _ = story.finish(name)
        _ = story.publish()

    found = list(follow_logs(workspace, query, wait=one_after_another(plan, both, finish)))
    assert strings(found) == [(task_key("b"), "this is b")]


def test_a_run_that_ends_without_the_asset_says_so(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.plan({"a": ()})
    _ = story.start("a")
    _ = story.publish()

    def end() -> None:
        _ = story.finish("a")
        _ = story.publish()

    query = LogQuery(run="run_1", asset="other")
    with pytest.raises(NotFound, match="there is no asset 'other'"):
        _ = list(follow_logs(workspace, query, wait=one_after_another(end)))


def test_a_log_whose_beginning_is_gone_goes_on_where_it_was(
    story: StoredStory, workspace: Workspace
) -> None:
    _ = story.plan({"a": ()})
    _ = story.start("a")
    whole = b"".join(b"line %06d\n" % number for number in range(2000))
    printed(story, "a", whole[:12000])
    _ = story.publish()

    def end() -> None:
        kept = whole[12000 - OVERLAP - 100 :]
        printed(story, "a", kept)
        _ = story.finish("a")
        _ = story.publish()

    found = list(follow_logs(workspace, NEWEST, wait=one_after_another(end)))
    assert "".join(one.text for one in found) == whole.decode()
