"""Secrets through real worker processes and in this one: no stored byte holds one."""

import base64
import json
from collections.abc import Generator
from pathlib import Path
from textwrap import dedent
from typing import Any
from urllib.parse import quote

import pytest

from servo.code.loader import load_module, load_project, project_of
from servo.core.state.tables import TABLES
from servo.errors import Invalid
from servo.host.leading import LeadingHost
from servo.host.materialize import materialize
from servo.ledger.paths import Paths
from servo.planning.assets import plan_assets
from servo.projection.read.reader import Reader
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.triggers.resolution import declared
from servo.storage.from_url import store_from_url
from servo.testing.planned_runs import start_plan
from servo.testing.process_setups import setup_for
from servo.workspace.system import SystemClock

LIMIT = 60

CANARIES = {
    "variable": "canary-from/a variable",
    "prefixed": 'canary "by" prefix',
    "file": "canary-in-a-file\nwith-a-second-line",
    "vault": "canary-from-the-vault-äöü",
    "sent": "canary-that-a-run-names",
    "number": "8471928374",
}

CODE = """
    import base64, json, os, subprocess, sys, urllib.parse
    from typing import Any
    from servo import *

    class Vault:
        def get(self, name):
            return "canary-from-the-" + name + "-äöü" if name == "vault" else None

    class Service(ConfigurableResource):
        variable: str = EnvVar("SOME_VARIABLE")
        prefixed: str = Secret("prefixed")
        file: str = Secret("file")
        vault: str = Secret("vault")
        number: int = EnvVar.int("SOME_NUMBER")

        def all(self):
            return [self.variable, self.prefixed, self.file, self.vault, str(self.number)]

    class Sent(Config):
        token: str = ""

    def spelled(value):
        yield value
        yield repr({"it": value})
        yield json.dumps([value])
        yield "https://u:" + urllib.parse.quote(value, safe="") + "@host/"
        yield "https://host/?t=" + urllib.parse.quote_plus(value)
        yield "Basic " + base64.b64encode(b"user:" + value.encode()).decode()
        yield value.encode().hex()

    @asset
    def prints(context: AssetExecutionContext, service: Service, config: Sent):
        assert config.token == "canary-that-a-run-names"
        for value in [*service.all(), config.token]:
            try:
                raise ValueError(value)
            except ValueError:
                context.log.exception("it failed")
            for text in spelled(value):
                print(text)
                print(text, file=sys.stderr)
                context.log.warning("logged %s", text)
                subprocess.run(["echo", text], check=True)
        os.write(1, service.variable[:7].encode())
        os.write(1, service.variable[7:].encode())
        return len(service.all())

    @asset
    def says(context: AssetExecutionContext, service: Service):
        context.add_output_metadata({"number": service.number, "in a list": service.all()})
        return MaterializeResult(
            value=1,
            metadata={t: t for v in service.all() for t in spelled(v)},
            data_version=DataVersion(service.vault),
        )

    @asset
    def raises(service: Service):
        secret = service.vault
        error = ValueError(*[t for v in service.all() for t in spelled(v)])
        error.add_note("with " + secret)
        raise error from KeyError(service.file)

    @asset
    def raises_much(service: Service):
        raise ValueError("x" * 7_990 + service.variable + "y" * 20_000)

    @asset
    def fails(service: Service):
        raise Failure(service.prefixed, metadata={"why": service.prefixed}, allow_retries=False)

    @asset
    def skips(service: Service):
        return Skip(service.vault)

    @asset
    def checked():
        return 1

    @asset_check(asset=checked)
    def finds(service: Service):
        return AssetCheckResult(
            passed=False, description="x" * 7_990 + service.vault, metadata={"a": service.file}
        )

    @asset_check(asset=checked)
    def breaks(service: Service):
        raise RuntimeError("x" * 7_970 + service.prefixed)

    @asset
    def prints_much(service: Service):
        sys.stdout.write("x" * 5_000 + service.vault + "y" * (16 * 1024 * 1024 - 15))

    secrets = [EnvSecrets(prefix="SHOP_"), FileSecrets("secrets"), Vault()]
    defs = Definitions(
        [prints, says, raises, raises_much, fails, skips, checked, prints_much],
        asset_checks=[finds, breaks],
        resources={"service": Service()},
        secrets=secrets,
    )
"""

SUCCEED = {"prints", "says", "checked", "prints_much"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Path]:
    monkeypatch.setenv("SOME_VARIABLE", CANARIES["variable"])
    monkeypatch.setenv("SOME_NUMBER", CANARIES["number"])
    monkeypatch.setenv("SHOP_PREFIXED", CANARIES["prefixed"])
    monkeypatch.setenv("SENT", CANARIES["sent"])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "file").write_text(CANARIES["file"] + "\n")
    (tmp_path / "assets.py").write_text(dedent(CODE))
    hidden().clear()
    yield tmp_path
    hidden().clear()


CONFIG = RunConfig(ops={"prints": {"config": {"token": {"env": "SENT"}}}}).to_config_dict()


def looked_for() -> list[bytes]:
    """What a canary would look like, and the least of it that would be too much."""
    found: list[bytes] = [b"canary"]  # every one of them but the number begins with it
    for value in CANARIES.values():
        found += [value.encode(), quote(value, safe="").encode(), value.encode().hex().encode()]
        found += [base64.b64encode(value.encode()), json.dumps(value)[1:-1].encode()]
        found += [base64.b64encode(b"user:" + value.encode())[8:-4]]
    return [*found, b"ry-from", b"e-vault-", b"with-a-second-line"]


def leaks(store: Path) -> list[tuple[str, bytes]]:
    found = [
        (str(path.relative_to(store)), piece)
        for path in store.rglob("*")
        if path.is_file()
        for piece in looked_for()
        if piece in path.read_bytes()
    ]
    snapshot = Reader(store_from_url(str(store), clock=SystemClock()), Paths("default", "default"))
    for table in TABLES:
        told = repr(snapshot.snapshot().rows(table)).encode()
        found += [(table, piece) for piece in looked_for() if piece in told]
    return found


@pytest.mark.slow
def test_no_secret_of_a_worker_process_is_stored(
    folder: Path,
) -> None:
    project = load_project("assets.py", folder)
    setup = setup_for("assets.py", folder, str(folder / "store"))
    with LeadingHost(setup, workers=2) as session:
        session.deploy("assets.py", declared(project))
        plan = plan_assets(project, project.order)
        run = start_plan(session, plan, "one", config=CONFIG)
        ended = session.wait(run, LIMIT)
        assert ended is not None
        tasks = {row.asset_key: row for row in session.tasks(run)}
        lines = [line for child in Path("/proc").iterdir() for line in argv(child)]
    made = {name for name, row in tasks.items() if row.state.value == "SUCCEEDED"}
    assert made == SUCCEED
    assert tasks["raises"].error_message.startswith("ValueError: ('***', ")
    assert tasks["skips"].state.value == "SKIPPED"
    printed = b"".join(path.read_bytes() for path in (folder / "store").rglob("*.txt"))
    assert printed.count(b"***") > 100
    assert b"logged ***" in printed
    assert leaks(folder / "store") == []
    assert not [line for line in lines if b"canary" in line]


def argv(process: Path) -> list[bytes]:
    try:
        return [(process / "cmdline").read_bytes()]
    except OSError:
        return []


def test_no_secret_of_this_process_is_stored(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module: Any = load_module("assets.py", folder)
    project = project_of(module)
    result = materialize(
        [*module.defs.assets, *module.defs.asset_checks],
        resources=project.resources,
        secrets=project.secrets,
        store=str(folder / "store"),
        run_config=CONFIG,
        raise_on_error=False,
    )
    failed = {str(key): told for key, told in result.failures.items()}
    assert set(failed) == {"raises", "raises_much", "fails"}
    assert failed["fails"] == "Failure: ***"
    assert "canary" not in repr(failed)
    assert "logged ***" in caplog.text
    assert "canary" not in caplog.text
    assert leaks(folder / "store") == []


def test_a_secret_in_what_an_import_raises_is_not_told(folder: Path) -> None:
    (folder / "assets.py").write_text(
        "from servo import EnvVar\nraise ValueError(EnvVar('SOME_VARIABLE').get_value())\n"
    )
    with (
        pytest.raises(Invalid) as told,
        LeadingHost(setup_for("assets.py", folder, str(folder / "store")), workers=1),
    ):
        pass
    assert "ValueError: ***" in str(told.value)
    assert "canary" not in str(told.value)
