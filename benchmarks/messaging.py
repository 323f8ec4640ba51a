"""What a storm of messages for a push sensor costs, and that each is evaluated once."""

import random
import time
from collections import Counter

from benchmarks.floors import BareDisk
from benchmarks.measure import Result, Samples, timed
from benchmarks.scratch import Scratch
from servo.code.loader import load_project
from servo.core.events.envelope import Batch
from servo.core.events.sensors import SensorMessageReceived
from servo.core.state.rows.automation import SensorEvalRow
from servo.host.leading import LeadingHost
from servo.leader.leases.lease import HostedTriggers
from servo.projection.read.reader import Reader
from servo.sdk.triggers.resolution import declared
from servo.testing.process_setups import setup_for
from servo.workspace.composition import open_world
from servo.workspace.push_messages import as_json, in_batches

LIMIT = 300.0
DUPLICATES = 0.3
_CODE = """
from servo import DefaultSensorStatus, SkipReason, asset, push_sensor

@asset
def made():
    return None

@push_sensor(target="made", default_status=DefaultSensorStatus.RUNNING)
def storm(context):
    return SkipReason(f"seen {context.payload['n']}")
"""


def sensor_storm(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Ten thousand messages, three in ten of them sent before, until every one is evaluated.

    The floor is a bare durable create for each message that is not a repetition.
    """
    size = 200 if quick else 10_000
    new = round(size * (1 - DUPLICATES))
    chance = random.Random(7)
    names = [f"m{n}" for n in range(new)]
    sent = names + chance.choices(names, k=size - new)
    chance.shuffle(sent)
    folder = scratch.folder()
    (folder / "assets.py").write_text(_CODE)
    project = load_project("assets.py", folder)
    store = str(folder / "store")
    setup = setup_for("assets.py", folder, store)
    taken, floors, disk = Samples(), Samples(), BareDisk(scratch.folder())
    with LeadingHost(setup, workers=1, triggers=HostedTriggers.ALL) as session:
        session.deploy("assets.py", declared(project))
        assert session.triggers is not None
        session.triggers.start()
        taken.taken.append(timed(lambda: _send(session, sent)))
    floors.time(lambda: [disk.create(b"x" * 600) for _ in range(new)])
    world = open_world(store)
    rows = Reader(world.store, session.paths).snapshot().rows("sensor_evals")
    counts = Counter(row.message_id for row in rows if isinstance(row, SensorEvalRow))
    assert counts == dict.fromkeys(names, 1), "not exactly one evaluation each"
    return [
        Result(
            name="sensor_storm",
            value=taken.wall,
            unit="s",
            floor=floors.wall,
            ratio=taken.wall / floors.wall,
            target="exactly one evaluation each",
            met=True,
            best=taken.wall,
        )
    ]


def _send(session: LeadingHost, names: list[str]) -> None:
    """Send messages, and wait until none is left."""
    service = session.service
    events = [
        SensorMessageReceived(sensor_id="storm", message_id=name, payload=as_json({"n": number}))
        for number, name in enumerate(names)
    ]
    sent = [
        service.submit(Batch(id=f"storm-{n}", events=batch))
        for n, batch in enumerate(in_batches(events))
    ]
    for one in sent:
        assert one.result(60).applied
    until = time.monotonic() + LIMIT
    while session.service.engine.state.sensor_state.rows["storm"].messages_waiting:
        assert time.monotonic() < until
        time.sleep(0.02)
