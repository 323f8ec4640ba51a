"""What user code reaches from a real worker process: the workspace, hooks, and other programs."""

import os
from pathlib import Path
from textwrap import dedent

import pytest

from servo import ServoInstance, load_asset
from servo.code.loader import load_project
from servo.core.state.states import RunState
from servo.host.leading import LeadingHost
from servo.operations.runs import cancel_run
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for

LIMIT = 60

CODE = """
import sys
from pathlib import Path
from servo import *

@success_hook(required_resource_keys={"book"})
def note(context):
    context.resources.book.note(f"{context.op.name} {context.op_output_values['result']}")
    print("the hook printed this")

@failure_hook
def breaks(context):
    Path("failed").write_text(repr(context.op_exception))
    raise RuntimeError("hook")

class Book(ConfigurableResource):
    def note(self, text):
        Path("noted").write_text(text)

@asset(hooks={note, breaks})
def regions(context: AssetExecutionContext):
    instance = context.instance
    instance.add_dynamic_partitions("regions", ["north"])
    before = instance.get_latest_materialization_event("regions")
    run = instance.get_run_by_id(context.run_id)
    found = list(instance.get_dynamic_partitions("regions"))
    return [found, before is None, run.status.value]

@asset(hooks={note, breaks})
def bad():
    raise KeyError("no")

@asset
def waits(context: AssetExecutionContext, client: PipesSubprocessClient):
    body = "import os, time; print(os.getpid(), file=open('pid.new', 'w')); "
    body += "os.rename('pid.new', 'pid'); time.sleep(60)"
    return client.run(command=[sys.executable, "-c", body], context=context).get_results()

defs = Definitions(
    [regions, bad, waits], resources={"book": Book(), "client": PipesSubprocessClient()}
)
"""


def session_in(folder: Path) -> LeadingHost:
    (folder / "assets.py").write_text(dedent(CODE))
    setup = setup_for("assets.py", folder, str(folder / "store"))
    return LeadingHost(setup, workers=1)


def request(session: LeadingHost, folder: Path, *names: str) -> str:
    project = load_project("assets.py", folder)
    session.deploy("assets.py", declared(project))
    keys = [key for key in project.order if key.name in names]
    return start_plan(session, plan_assets(project, keys), "-".join(names))


@pytest.mark.slow
def test_an_asset_and_its_hooks_reach_the_workspace(tmp_path: Path) -> None:
    with session_in(tmp_path) as session:
        ended = session.wait(request(session, tmp_path, "regions", "bad"), LIMIT)
        assert ended is not None
        assert (ended.tasks_succeeded, ended.tasks_failed) == (1, 1)
        errors = [task.error_message for task in session.tasks(ended.run_id)]
        assert sorted(errors) == ["", "KeyError: 'no'"]
    store = str(tmp_path / "store")
    assert load_asset("regions", store=store) == [["north"], True, "STARTED"]
    assert (tmp_path / "noted").read_text() == "regions [['north'], True, 'STARTED']"
    assert (tmp_path / "failed").read_text() == "KeyError('no')"
    logs = [path.read_text() for path in (tmp_path / "store").rglob("logs/**/*") if path.is_file()]
    assert any("the hook printed this" in text for text in logs)
    assert any("the hook breaks failed; the result of bad is not affected" in text for text in logs)
    instance = ServoInstance.of_store(store)
    assert instance.has_dynamic_partition("regions", "north")


def test_a_program_ends_with_the_task_that_started_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with session_in(tmp_path) as session:
        run = request(session, tmp_path, "waits")
        pid = int(eventually(lambda: told.exists() and told.read_text(), LIMIT))
        os.kill(pid, 0)
        _ = cancel_run(session.workspace, run)
        ended = session.wait(run, LIMIT)
        assert ended is not None
        assert ended.state is RunState.CANCELLED
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
