"""Secrets that schedules and sensors read: no object of the store and no terminal shows one."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from textwrap import dedent

import pytest

from servo.errors import Corrupt
from servo.ledger.paths import Paths
from servo.ledger.segment import decode_segment
from servo.projection.files.arrow import pq
from servo.storage.from_url import store_from_url
from servo.testing.archives import archive_range
from servo.testing.command_line import asked, queried, servo
from servo.workspace.system import SystemClock

CANARY = "canary-in-the-mine"
ENVIRON = {"SERVICE_TOKEN": CANARY, "SHOP_KEY": f"{CANARY} too"}
REFUSED = "contains a value that was read from a Secret or an EnvVar"

CODE = """
    import logging, os, subprocess, sys
    from servo import *

    ON = DefaultSensorStatus.RUNNING
    IMPORTED = EnvVar("SERVICE_TOKEN").get_value()
    print("imported", IMPORTED, flush=True)
    customers = DynamicPartitionsDefinition(name="customers")

    class Service(ConfigurableResource):
        token: str = EnvVar("SERVICE_TOKEN")
        key: str = Secret("key")

    class Sent(Config):
        token: str = ""

    @asset(
        description=f"from {IMPORTED}",
        tags={"token": IMPORTED},
        op_tags={"token": IMPORTED},
        automation_condition=AutomationCondition.missing().with_label(f"if {IMPORTED}"),
    )
    def orders(config: Sent):
        assert config.token in ("", os.environ["SERVICE_TOKEN"])
        return 1

    def says(context, service):
        for text in (service.token, service.key):
            print("printed", text)
            print("printed", text, file=sys.stderr)
            context.log.warning("logged %s", text)
            logging.getLogger("own").warning("logged %s", text)

    def shows(context, service):
        says(context, service)
        for text in (service.token, service.key):
            os.write(1, text[:7].encode())
            os.write(1, text[7:].encode() + b" in two parts\\n")
            subprocess.run(["echo", "from a process", text], check=True)
        sys.stdout.write("x" * 100_000 + service.token + "y" * 100_000 + "\\n")

    def requested(service, key=None):
        tags = {"a": service.token, service.key: "b", "servo/job": service.token}
        config = RunConfig(ops={"orders": Sent(token=EnvVar("SERVICE_TOKEN"))})
        return RunRequest(run_key=key, tags=tags, run_config=config)

    @sensor(target="orders", default_status=ON)
    def skips(context, service: Service):
        shows(context, service)
        return SkipReason(f"skipped {service.token} {service.key!s}")

    @sensor(target="orders", default_status=ON)
    def requests(context, service: Service):
        event = AssetObservation("seen", metadata={service.key: service.token})
        context.instance.report_runless_asset_event(
            AssetMaterialization("elsewhere", metadata={"a": service.token})
        )
        return SensorResult(
            run_requests=[requested(service, "k")], cursor="1", asset_events=[event]
        )

    @sensor(target="orders", default_status=ON)
    def raises(context, service: Service):
        raise ValueError(service.token) from KeyError(service.key)

    @sensor(target="orders", default_status=ON)
    def cursor(service: Service):
        return SensorResult(cursor=service.token)

    @sensor(target="orders", default_status=ON)
    def run_key(service: Service):
        return RunRequest(run_key=f"run {service.token}")

    @sensor(target="orders", default_status=ON)
    def run_config(service: Service):
        return RunRequest(run_config={"ops": {"orders": {"config": {"token": service.token}}}})

    @sensor(target="orders", default_status=ON)
    def partition(service: Service):
        added = customers.build_add_request([service.key])
        return SensorResult(dynamic_partitions_requests=[added])

    @sensor(target="orders", default_status=ON)
    def instance(context, service: Service):
        context.instance.add_dynamic_partitions("customers", [service.key])

    @schedule(target="orders", cron_schedule="@yearly")
    def ticks(context, service: Service):
        says(context, service)
        return requested(service)

    @schedule(target="orders", cron_schedule="@yearly")
    def ticks_not(context, service: Service):
        return SkipReason(service.token)

    @schedule(target="orders", cron_schedule="@yearly")
    def ticks_badly(context, service: Service):
        raise RuntimeError(service.token)

    defs = Definitions(
        [orders],
        schedules=[ticks, ticks_not, ticks_badly],
        sensors=[skips, requests, raises, cursor, run_key, run_config, partition, instance],
        resources={"service": Service()},
        secrets=[EnvSecrets(prefix="SHOP_")],
    )
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in ENVIRON.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "assets.py").write_text(dedent(CODE))
    return tmp_path


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a stored object, and what they say once they are decompressed."""
    data = path.read_bytes()
    yield data
    if path.suffix == ".parquet":
        yield repr(pq.read_table(path).to_pylist()).encode()
        yield repr(pq.read_metadata(path).metadata).encode()
    with suppress(Corrupt):  # not a segment of the archive
        yield b"\n".join(decode_segment(data, what=path.name)[1])


def leaks(store: Path) -> list[str]:
    return [
        str(path.relative_to(store))
        for path in store.rglob("*")
        if path.is_file() and any(b"canary" in data for data in contents(path))
    ]


@pytest.mark.slow
def test_no_secret_of_a_schedule_or_a_sensor_is_stored_or_shown(folder: Path) -> None:
    ticked = servo(folder, "tick")
    shown = ticked.stdout + ticked.stderr
    for name in ("ticks", "ticks_not", "ticks_badly"):
        done = servo(folder, "schedule", "trigger", name)
        assert done.returncode == (2 if name == "ticks_badly" else 0), done.stderr
        shown += done.stdout + done.stderr
    for name in ("skips", "requests", "raises", "cursor", "run_key"):
        done = servo(folder, "sensor", "evaluate", name)
        shown += done.stdout + done.stderr
    for words in (["check"], ["automation", "preview"], ["sensor", "list"], ["run", "list"]):
        done = servo(folder, *words)
        shown += done.stdout + done.stderr
    rows = {
        row["sensor_id"]: row["message"]
        for row in queried(folder, "select sensor_id, message from sensor_evals")
    }
    assert rows["skips"] == "skipped *** ***"
    assert rows["raises"].startswith("ValueError: ***")
    for name, field in {
        "cursor": "the cursor",
        "run_key": "a run key",
        "run_config": "the run_config",
        "partition": "a new key of customers",
    }.items():
        assert f"sensor {name}: {field} {REFUSED}" in rows[name]
    assert f"a new key of customers {REFUSED}" in rows["instance"]
    runs = asked(folder, "run", "list")["items"]
    assert {row["state"] for row in runs} == {"SUCCEEDED"}
    assert {row["source"]["kind"] for row in runs} >= {"sensor", "schedule"}

    store = store_from_url(str(folder / ".servo"), clock=SystemClock())
    _ = archive_range(store, Paths("default", "default"), 1, 5)
    assert leaks(folder / ".servo") == []
    assert "canary" not in shown
    assert shown.count("in two parts") >= 4
    assert "printed ***\n" in shown
    assert "logged ***\n" in shown
    assert "from a process ***\n" in shown
    assert "imported ***\n" in shown
