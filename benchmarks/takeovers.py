"""How long work waits for another machine when the one that led was killed.

Two machines share a bucket and nothing else. One leads and runs a task, the other waits for a run
of its own. The first is killed: the figure is the time until its task begins again on the other.
The floor is the time for which a leader may be silent before it is given up.
"""

from statistics import median

from benchmarks.measure import Result
from benchmarks.scratch import Scratch
from servo.leader.leases.lease import ANSWER_WITHIN
from servo.testing.machines import Gates, Machine
from servo.testing.seaweed import ACCESS_KEY, SECRET_KEY, seaweed
from servo.workspace.system import SystemClock

MOST = 10
CODE = (
    Gates.CODE
    + """
from servo import asset

@asset
def held():
    pass_gate("held")

@asset
def beside():
    pass_gate("beside")
"""
)


def killed_machine(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Seconds from SIGKILL on one machine to the first line of user code on another."""
    clock, taken = SystemClock(), list[float]()
    with seaweed() as server:
        _ = server.store("machines", clock=clock).put("made", b"")
        for number in range(1 if quick else 5):
            folder = scratch.folder()
            where = f"endpoint={server.endpoint}&region=us-east-1&allow_http=true"
            gates = Gates(folder / "gates")
            environ = {
                "AWS_ACCESS_KEY_ID": ACCESS_KEY,
                "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
                "GATES": str(gates.folder),
            }
            here, there = (
                Machine(folder / name, f"s3://machines/{number}?{where}", CODE, **environ)
                for name in ("here", "there")
            )
            with here.start("materialize", "assets.py", "held") as leader:
                gates.wait_for("held")
                with there.start("materialize", "assets.py", "beside") as client:
                    gates.wait_for("beside")  # it waits for the leader
                    leader.kill()
                    killed = clock.monotonic()
                    gates.wait_for("held", 2)
                    taken.append(clock.monotonic() - killed)
                    gates.open("held", "beside")
                    _ = client.ended()
    value = median(taken)
    return [
        Result(
            name="killed_machine",
            value=value,
            unit="s",
            floor=ANSWER_WITHIN,
            ratio=value / ANSWER_WITHIN,
            target=f"<= {MOST} s",
            met=value <= MOST,
            best=min(taken),
        )
    ]
