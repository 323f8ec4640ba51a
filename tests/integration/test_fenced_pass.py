"""A pass whose leader is fenced by another one ends, and says so."""

import threading
from pathlib import Path
from textwrap import dedent

import pytest

from servo.code.loader import load_project
from servo.core.keys import AssetKey
from servo.errors import Fenced
from servo.host.leading import LeadingHost
from servo.host.one_pass import make_pass
from servo.leader.leases.lease import HostedTriggers
from servo.planning.assets import plan_assets
from servo.sdk.triggers.resolution import declared
from servo.testing.eventually import eventually
from servo.testing.leader import open_service
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for
from servo.workspace.system import SystemClock

CODE = """
    from pathlib import Path
    from threading import Event
    from servo import asset

    @asset
    def slow():
        Path("began").touch()
        while not Path("go").exists():
            Event().wait(0.02)
    """


def test_a_pass_that_is_fenced_while_it_works_ends_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(dedent(CODE))
    project = load_project("assets.py", tmp_path)
    store = str(tmp_path / "store")
    setup = setup_for("assets.py", tmp_path, store)
    raised: list[BaseException] = []

    def work() -> None:
        try:
            with LeadingHost(setup, workers=1, triggers=HostedTriggers.ALL) as session:
                session.deploy("assets.py", declared(project))
                _ = start_plan(session, plan_assets(project, [AssetKey("slow")]), "one")
                make_pass(session, SystemClock().now())
        except BaseException as error:  # noqa: BLE001 - the test looks at whatever it is
            raised.append(error)

    passing = threading.Thread(target=work, daemon=True)
    passing.start()
    eventually((tmp_path / "began").exists)
    with open_service(store):  # takes no lock: a leader that has not seen the other
        passing.join(30)
        ended = not passing.is_alive()
    (tmp_path / "go").touch()
    passing.join(30)
    assert ended, "it waits for a leader that will not be one again"
    (error,) = raised
    with pytest.raises(Fenced, match="has taken over this workspace"):
        raise error
