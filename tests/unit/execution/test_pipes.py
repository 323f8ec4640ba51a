"""Pipes: an asset that another program makes, and what that program says."""

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import servo.pipes as external
from servo import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetExecutionContext,
    DataVersion,
    MaterializeResult,
    MetadataValue,
    PipesEnvContextInjector,
    PipesExecutionError,
    PipesFileContextInjector,
    PipesFileMessageReader,
    PipesSubprocessClient,
    PipesTempFileMessageReader,
    TableColumn,
    TableColumnDep,
    TableColumnLineage,
    TableRecord,
    TableSchema,
    asset,
    build_asset_context,
    materialize,
    open_pipes_session,
)
from servo.core.keys import AssetKey
from servo.errors import Invalid, NotFound
from servo.execution.pipes.handler import PipesMessageHandler
from servo.execution.pipes.session import context_data
from servo.processes.stopping import Interrupted
from servo.sdk.metadata.entries import TableColumnConstraints, decode_metadata

ORDERS = AssetKey(["shop", "orders"])


class Log:
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.when_told: Callable[[], None] = lambda: None

    def debug(self, msg: object, *args: object) -> None:
        self.lines.append(f"debug {str(msg) % args}")

    def info(self, msg: object, *args: object) -> None:
        self.lines.append(f"info {str(msg) % args}")
        self.when_told()

    def warning(self, msg: object, *args: object) -> None:
        self.lines.append(f"warning {str(msg) % args}")

    def error(self, msg: object, *args: object) -> None:
        self.lines.append(f"error {str(msg) % args}")


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def context(log: Log) -> AssetExecutionContext:
    return build_asset_context(asset_key=ORDERS, run_id="run_1", log=log)


@pytest.fixture
def program(tmp_path: Path) -> Any:
    """Writes a program that speaks through a pipe, and gives its command."""

    def write(body: str, *, opened: bool = True) -> list[str]:
        path = tmp_path / "program.py"
        head = "from servo.pipes import open_servo_pipes\nimport os, sys, time\n"
        lines = [f"    {line}" for line in body.splitlines()]
        within = "with open_servo_pipes() as pipes:\n" + "\n".join(lines) if opened else body
        path.write_text(head + within + "\n")
        return [sys.executable, str(path)]

    return write


# --- through a real program -----------------------------------------------------------------------


def test_a_program_is_told_its_context_and_its_results_come_back(
    program: Any, context: AssetExecutionContext, log: Log
) -> None:
    command = program(
        "pipes.log.warning('took %s', pipes.get_extra('table'))\n"
        "told = [pipes.asset_key, pipes.run_id, pipes.retry_number, pipes.extras, os.getcwd()]\n"
        "pipes.report_custom_message(told + [os.environ['COLOUR'], os.environ['SHAPE']])\n"
        "pipes.report_asset_check('few', passed=True, severity='WARN', metadata={'most': 3})\n"
        "link = {'raw_value': 'https://x', 'type': 'url'}\n"
        "pipes.report_asset_materialization(metadata={'rows': 2, 'link': link}, data_version='7')\n"
    )
    client = PipesSubprocessClient(env={"COLOUR": "blue", "SHAPE": "round"}, cwd="/")
    done = client.run(
        command=command, context=context, extras={"table": "t"}, env={"SHAPE": "square"}
    )
    check = AssetCheckResult(
        asset_key=ORDERS,
        check_name="few",
        passed=True,
        severity=AssetCheckSeverity.WARN,
        metadata={"most": 3},
    )
    made = MaterializeResult(
        asset_key=ORDERS,
        metadata={"rows": 2, "link": MetadataValue.url("https://x")},
        data_version=DataVersion("7"),
    )
    assert list(done.get_results()) == [check, made]
    assert list(done.get_materialize_result().check_results) == [check]
    told = ["shop/orders", "run_1", 0, {"table": "t"}, "/", "blue", "square"]
    assert list(done.get_custom_messages()) == [told]
    assert "warning took t" in log.lines


def test_a_program_that_reports_nothing_has_made_the_asset(
    program: Any, context: AssetExecutionContext
) -> None:
    done = PipesSubprocessClient().run(command=program("pass"), context=context)
    assert done.get_materialize_result() == MaterializeResult(asset_key=ORDERS, check_results=[])
    assert list(done.get_results(implicit_materializations=False)) == []
    with pytest.raises(Invalid, match="got: none"):
        done.get_materialize_result(implicit_materialization=False)


def test_a_program_that_knows_nothing_of_pipes_is_run_and_that_is_told(
    context: AssetExecutionContext, log: Log
) -> None:
    done = PipesSubprocessClient().run(command=f"{sys.executable} -c 'print(1)'", context=context)
    assert done.get_materialize_result().asset_key == ORDERS
    assert "does it call open_servo_pipes()?" in log.lines[-1]


def test_a_program_that_fails_says_why(program: Any, context: AssetExecutionContext) -> None:
    command = program("print('near the end', file=sys.stderr)\nraise KeyError('orders')")
    with pytest.raises(PipesExecutionError) as failure:
        PipesSubprocessClient().run(command=command, context=context)
    told = str(failure.value)
    assert "ended with exit code 1; it raised KeyError: 'orders'; the end of its output:\n" in told
    assert "near the end\n" in told


def test_a_program_that_is_killed_says_by_what(
    program: Any, context: AssetExecutionContext, capfd: pytest.CaptureFixture[str]
) -> None:
    command = program("print('x' * 9000, 'last', file=sys.stderr)\nos.kill(os.getpid(), 9)")
    with pytest.raises(
        PipesExecutionError, match=r"ended with signal 9; the end of its output:\nx+ last"
    ):
        PipesSubprocessClient().run(command=command, context=context)
    assert len(capfd.readouterr().err) > 9000


def test_what_a_program_prints_is_printed_here(
    program: Any, context: AssetExecutionContext, capfd: pytest.CaptureFixture[str]
) -> None:
    command = program("print('out', flush=True)\nprint('err', file=sys.stderr)")
    _ = PipesSubprocessClient().run(command=command, context=context)
    assert capfd.readouterr() == ("out\n", "err\n")


def test_a_program_is_ended_when_the_execution_is_interrupted(
    program: Any, context: AssetExecutionContext, log: Log, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    log.when_told = (tmp_path / "started").touch
    body = (
        "import signal, pathlib\n"
        f"def end(*_): pathlib.Path({str(ended)!r}).write_text('ended'); os._exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"while not pathlib.Path({str(tmp_path / 'started')!r}).exists(): time.sleep(0.01)\n"
        "os.kill(os.getppid(), signal.SIGUSR1)\n"
        "time.sleep(60)"
    )

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            PipesSubprocessClient().run(command=program(body), context=context)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ended.read_text() == "ended"


def test_a_program_is_ended_when_the_execution_is_interrupted_just_after_its_start(
    program: Any, context: AssetExecutionContext, log: Log
) -> None:
    def interrupt() -> None:
        raise Interrupted

    log.when_told = interrupt
    with pytest.raises(Interrupted):
        PipesSubprocessClient().run(command=program("time.sleep(60)"), context=context)
    pid = int(log.lines[-1].rpartition(" ")[2])
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_program_that_will_not_end_is_killed(
    program: Any, context: AssetExecutionContext, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servo.execution.pipes.subprocess_client.GRACE_SECONDS", 0.2)
    body = (
        "import signal\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "os.kill(os.getppid(), signal.SIGUSR1)\n"
        "time.sleep(60)"
    )

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        with pytest.raises(Interrupted):
            PipesSubprocessClient().run(command=program(body), context=context)
    finally:
        signal.signal(signal.SIGUSR1, before)
    with pytest.raises(ProcessLookupError):
        os.kill(int(log.lines[0].rpartition(" ")[2]), 0)


def test_a_program_that_leaves_something_running_is_not_waited_for(
    program: Any, context: AssetExecutionContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("servo.execution.pipes.subprocess_client.LAST_WORDS_SECONDS", 0.1)
    body = (
        "import subprocess\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)'])\n"
        "pipes.report_custom_message(child.pid)"
    )
    done = PipesSubprocessClient().run(command=program(body), context=context)
    os.kill(done.get_custom_messages()[0], signal.SIGKILL)


@pytest.mark.parametrize(
    ("command", "options", "told"),
    [
        ([], {}, "the command is empty"),
        (["no-such-program-anywhere"], {}, "no-such-program-anywhere cannot be started"),
        ([sys.executable], {"cwd": "/no/such/folder"}, "cannot be started in /no/such/folder"),
        (["/dev/null"], {}, "make it executable"),
    ],
)
def test_a_program_that_cannot_be_started_is_told(
    command: list[str], options: dict[str, Any], told: str, context: AssetExecutionContext
) -> None:
    with pytest.raises((Invalid, NotFound), match=told):
        PipesSubprocessClient().run(command=command, context=context, **options)


def test_an_asset_takes_the_client_as_a_resource(program: Any) -> None:
    command = program("pipes.report_asset_materialization(metadata={'rows': 2})")

    @asset
    def made(context: AssetExecutionContext, client: PipesSubprocessClient) -> MaterializeResult:
        return client.run(command=command, context=context).get_materialize_result()

    result = materialize([made], resources={"client": PipesSubprocessClient()})
    (row,) = result.materializations
    assert decode_metadata(row.metadata) == {"rows": MetadataValue.int(2)}


# --- the session ----------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[None]:
    external.PipesContext.set(None)
    yield
    external.PipesContext.set(None)


@pytest.mark.usefixtures("fresh")
def test_a_session_can_be_held_with_anything_that_takes_variables(
    context: AssetExecutionContext, tmp_path: Path
) -> None:
    told, said = tmp_path / "told", tmp_path / "said"
    injector, reader = PipesFileContextInjector(str(told)), PipesFileMessageReader(str(said))
    with open_pipes_session(context, injector, reader, {"n": 1}) as session:
        assert json.loads(told.read_text())["extras"] == {"n": 1}
        loader = external.PipesMappingParamsLoader(session.get_bootstrap_env_vars())
        with external.open_dagster_pipes(params_loader=loader) as pipes:
            pipes.report_asset_materialization(asset_key="shop/orders")
    assert [result.asset_key for result in session.get_results()] == [ORDERS]
    assert not told.exists()
    assert not said.exists()


@pytest.mark.usefixtures("fresh")
def test_a_session_can_be_passed_in_the_environment_or_on_the_command_line(
    context: AssetExecutionContext,
) -> None:
    reader = PipesTempFileMessageReader()
    with open_pipes_session(context, PipesEnvContextInjector(), reader) as session:
        words = [w for pair in session.get_bootstrap_cli_arguments().items() for w in pair]
        loader = external.PipesCliArgsParamsLoader(["--other", "1", *words])
        with external.open_servo_pipes(params_loader=loader) as pipes:
            assert external.PipesContext.get() is external.open_servo_pipes() is pipes
            pipes.report_custom_message([1, None])
    assert list(session.get_custom_messages()) == [[1, None]]


def test_several_assets_or_one_check_can_be_reported(log: Log) -> None:
    both = build_asset_context(asset_key="a", log=log)
    both.selected_asset_keys = {AssetKey("a"), AssetKey("b")}
    reader = PipesTempFileMessageReader()
    with open_pipes_session(both, PipesEnvContextInjector(), reader) as session:
        pass
    assert [result.asset_key for result in session.get_results()] == [AssetKey("a"), AssetKey("b")]
    assert context_data(both)["asset_keys"] == ["a", "b"]


def test_one_check_can_be_asked_for(program: Any, context: AssetExecutionContext) -> None:
    command = program("pipes.report_asset_check('few', passed=False)")
    done = PipesSubprocessClient().run(command=command, context=context)
    assert not done.get_asset_check_result().passed
    none = PipesSubprocessClient().run(command=program("pass"), context=context)
    with pytest.raises(Invalid, match="expected one check result, got 0"):
        none.get_asset_check_result()


def test_a_partition_is_told() -> None:
    told = context_data(build_asset_context(asset_key="a", partition_key="2026-01-01"))
    assert told["partition_key"] == "2026-01-01"
    assert told["partition_key_range"] == {"start": "2026-01-01", "end": "2026-01-01"}
    assert told["partition_time_window"] is None
    assert context_data(build_asset_context(asset_key="a"))["partition_key_range"] is None


# --- messages that are wrong ----------------------------------------------------------------------


def message(method: Any, **params: Any) -> dict[str, Any]:
    return external.make_message(method, params)


REPORT = "report_asset_materialization"
WRONG = [
    {"method": "log"},
    message(7),
    message("log", message="no level"),
    message(REPORT, asset_key="another"),
    message(REPORT, asset_key="shop/orders", metadata={"a": {"type": "odd", "raw_value": 1}}),
    message(REPORT, asset_key="shop/orders", metadata={"a": {"type": "int", "raw_value": "x"}}),
    message(REPORT, asset_key="shop/orders", metadata={"a": {"type": "table", "raw_value": 1}}),
    message("report_asset_check", asset_key="shop/orders", check_name="c", passed="yes"),
    message("report_asset_check", asset_key="shop/orders", check_name="c", passed=1),
    message("report_asset_check", asset_key="shop/orders", check_name="c", passed=True, severity=3),
]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_a_program_says_wrongly_is_raised_when_the_session_ends(
    wrong: Any, context: AssetExecutionContext, tmp_path: Path
) -> None:
    reader = PipesFileMessageReader(str(tmp_path / "said"))
    with (
        pytest.raises(Invalid),
        open_pipes_session(context, PipesEnvContextInjector(), reader) as session,
        Path(session.message_reader_params["path"]).open("a") as file,
    ):
        _ = file.write(f"{json.dumps(message('opened'))}\n{json.dumps(wrong)}\n")


def test_what_is_no_message_or_unknown_is_told_and_passed_over(
    context: AssetExecutionContext, log: Log, tmp_path: Path
) -> None:
    reader = PipesFileMessageReader(str(tmp_path / "said"))
    with (
        open_pipes_session(context, PipesEnvContextInjector(), reader) as session,
        Path(session.message_reader_params["path"]).open("a") as file,
    ):
        lines = ["rubbish", "[]", "", json.dumps(message("opened")), json.dumps(message("sing"))]
        _ = file.write("\n".join(lines) + "\n" + json.dumps(message("log", message="m", level="X")))
    assert log.lines == [
        "warning pipes: this is not a message: rubbish",
        "warning pipes: this is not a message: []",
        "warning ignored the message sing, which this version does not know",
        "error m",
        "warning pipes: the program did not close its pipe",
    ]


def test_messages_arrive_while_the_program_runs(tmp_path: Path) -> None:
    reader = PipesFileMessageReader(str(tmp_path / "said"), remove=False)
    arrived = threading.Event()

    class Ringing(Log):
        def info(self, msg: object, *args: object) -> None:
            super().info(msg, *args)
            arrived.set()

    handler = PipesMessageHandler(Ringing(), [ORDERS])
    with reader.read_messages(handler) as params:
        path = Path(params["path"])
        line = json.dumps(message("log", message="hello", level="INFO"))
        _ = path.write_text(line[:20])
        assert not arrived.wait(0.2)
        _ = path.write_text(line + "\n")
        assert arrived.wait(5)
    assert path.exists()


def test_what_something_else_printed_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    handler = PipesMessageHandler(Log(), [])
    handler.handle_message(message("log_external_stream", stream="stdout", text="out"))
    handler.handle_message(message("log_external_stream", stream="stderr", text="err"))
    assert capsys.readouterr() == ("out", "err")


COLUMN = {"name": "id", "type": "int", "tags": {"a": "b"}, "constraints": {"nullable": False}}
SCHEMA = TableSchema(
    [TableColumn("id", "int", None, TableColumnConstraints(nullable=False), {"a": "b"})]
)
LINEAGE = {"deps_by_column": {"id": [{"asset_key": "raw/orders", "column_name": "nr"}]}}
TYPED: list[tuple[str, Any, Any]] = [
    ("__infer__", {"a": [1]}, {"a": [1]}),
    ("text", "t", MetadataValue.text("t")),
    ("url", "https://x", MetadataValue.url("https://x")),
    ("path", "/x", MetadataValue.path("/x")),
    ("notebook", "/x", MetadataValue.notebook("/x")),
    ("json", {"a": 1}, MetadataValue.json({"a": 1})),
    ("md", "*x*", MetadataValue.md("*x*")),
    ("float", 1, MetadataValue.float(1.0)),
    ("int", 1, MetadataValue.int(1)),
    ("bool", True, MetadataValue.bool(True)),
    ("timestamp", 5, MetadataValue.timestamp(5.0)),
    ("dagster_run", "r", MetadataValue.dagster_run("r")),
    ("asset", "a/b", MetadataValue.asset(AssetKey(["a", "b"]))),
    ("null", None, MetadataValue.null()),
    (
        "table",
        {"records": [{"id": 1}], "schema": [COLUMN]},
        MetadataValue.table([TableRecord({"id": 1})], SCHEMA),
    ),
    ("table_schema", {"columns": [COLUMN]}, MetadataValue.table_schema(SCHEMA)),
    (
        "table_column_lineage",
        LINEAGE,
        MetadataValue.table_column_lineage(
            TableColumnLineage({"id": [TableColumnDep("raw/orders", "nr")]})
        ),
    ),
]


@pytest.mark.parametrize(("kind", "raw", "expected"), TYPED)
def test_every_type_of_metadata_comes_through(kind: str, raw: Any, expected: Any) -> None:
    handler = PipesMessageHandler(Log(), [ORDERS])
    metadata = {"it": {"type": kind, "raw_value": raw}}
    handler.handle_message(message(REPORT, asset_key="shop/orders", metadata=metadata))
    assert handler.wrong is None
    assert handler.results == [MaterializeResult(asset_key=ORDERS, metadata={"it": expected})]


def test_there_is_a_case_for_every_type_that_programs_may_send() -> None:
    assert {kind for kind, _, _ in TYPED} == external.METADATA_TYPES


# --- the program's own end ------------------------------------------------------------------------

DATA: dict[str, Any] = {
    "asset_keys": ["a"],
    "code_version_by_asset_key": {"a": "7"},
    "provenance_by_asset_key": {"a": None},
    "partition_key": "x",
    "partition_key_range": {"start": "x", "end": "x"},
    "partition_time_window": None,
    "run_id": "run_1",
    "job_name": None,
    "retry_number": 3,
    "extras": {"n": 1},
}


def opened(messages: dict[str, Any], **changes: Any) -> external.PipesContext:
    params = {"data": DATA | changes}
    loader = external.PipesMappingParamsLoader(
        {
            "DAGSTER_PIPES_CONTEXT": external.encode_param(params),
            "DAGSTER_PIPES_MESSAGES": external.encode_param(messages),
        }
    )
    return external.PipesContext(
        loader, external.PipesDefaultContextLoader(), external.PipesDefaultMessageWriter()
    )


def test_a_program_can_ask_everything() -> None:
    pipes = opened({"stdio": "stderr"})
    assert pipes.is_asset_step
    assert (pipes.asset_key, list(pipes.asset_keys)) == ("a", ["a"])
    assert (pipes.code_version, pipes.provenance) == ("7", None)
    assert pipes.is_partition_step
    assert (pipes.partition_key, pipes.partition_time_window) == ("x", None)
    assert (pipes.run_id, pipes.job_name, pipes.retry_number) == ("run_1", None, 3)
    assert pipes.get_extra("n") == 1


ASKED: list[tuple[dict[str, Any], Callable[[Any], Any], str]] = [
    ({"asset_keys": None}, lambda p: p.asset_key, "no asset is being made"),
    ({"asset_keys": ["a", "b"]}, lambda p: p.asset_key, "2 assets are being made"),
    ({"partition_key": None}, lambda p: p.partition_key, "no single partition"),
    ({}, lambda p: p.get_extra("m"), "there is no extra 'm'; there are: n"),
    ({}, lambda p: p.report_asset_check("c", passed=1), "not a truth value"),
    ({}, lambda p: p.report_asset_check("c", passed=True, severity="X"), "use WARN or ERROR"),
    ({}, lambda p: p.report_asset_materialization(asset_key="b"), "b is not being made; a is"),
    ({}, lambda p: p.report_asset_materialization(data_version=3), "which is not text"),
    ({}, lambda p: p.report_asset_materialization({"x": {"y": 1}}), 'write {"raw_value"'),
    ({}, lambda p: p.report_custom_message(object()), "cannot be written as JSON"),
    (
        {"asset_keys": ["a", "b"]},
        lambda p: p.report_asset_materialization(),
        "2 assets are being made",
    ),
]


@pytest.mark.parametrize(("changes", "ask", "told"), ASKED)
def test_what_a_program_asks_wrongly_is_told(changes: Any, ask: Any, told: str) -> None:
    with pytest.raises(external.PipesError, match=told):
        ask(opened({"stdio": "stderr"}, **changes))


def test_an_asset_is_reported_once_and_nothing_after_the_end() -> None:
    pipes = opened({"stdio": "stderr"})
    pipes.report_asset_materialization()
    with pytest.raises(external.PipesError, match="reported before"):
        pipes.report_asset_materialization()
    pipes.close()
    pipes.close()
    assert pipes.is_closed
    with pytest.raises(external.PipesError, match="closed before"):
        pipes.report_custom_message(1)


@pytest.mark.parametrize("how", ["stdio", "buffered_stdio"])
def test_messages_can_be_printed(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    with opened({how: "stdout"}) as pipes:
        pipes.log_external_stream("stdout", "t")
        assert bool(out.getvalue()) is (how == "stdio")
    methods = [json.loads(line)["method"] for line in out.getvalue().splitlines()]
    assert methods == ["opened", "log_external_stream", "closed"]


@pytest.mark.parametrize("params", [{}, {"stdio": "printer"}])
def test_messages_must_go_somewhere(params: dict[str, Any]) -> None:
    with pytest.raises(external.PipesError, match=r"messages go"):
        opened(params)


def test_the_context_must_be_somewhere() -> None:
    loader = external.PipesDefaultContextLoader()
    with pytest.raises(external.PipesError, match="neither in a file"), loader.load_context({}):
        pass
    lone = external.PipesMappingParamsLoader({"DAGSTER_PIPES_CONTEXT": "rubbish"})
    with pytest.raises(external.PipesError, match="cannot be read"):
        lone.load_context_params()
    with pytest.raises(external.PipesError, match="DAGSTER_PIPES_MESSAGES is not"):
        lone.load_messages_params()
    with pytest.raises(external.PipesError, match="cannot be written as JSON"):
        external.encode_param(object())


@pytest.mark.usefixtures("fresh")
def test_a_program_that_nobody_started_keeps_everything_to_itself() -> None:
    with pytest.raises(external.PipesError, match="call open_servo_pipes"):
        external.PipesContext.get()
    loader = external.PipesMappingParamsLoader({})
    with pytest.warns(external.PipesWarning, match="goes nowhere"):
        pipes = external.open_servo_pipes(params_loader=loader)
    with pipes:
        pipes.log.debug("unheard")
        pipes.report_asset_materialization(metadata={"rows": 1})
        assert pipes.get_extra("n") is pipes
        assert not pipes.is_asset_step
        assert not hasattr(pipes, "_private")


def test_an_exception_is_told_with_its_causes(tmp_path: Path) -> None:
    said = tmp_path / "said"

    def fail() -> None:
        try:
            _ = DATA["inner"]
        except KeyError as error:
            raise ValueError("outer") from error

    with pytest.raises(ValueError, match="outer"), opened({"path": str(said)}):
        fail()
    told = json.loads(said.read_text().splitlines()[-1])["params"]["exception"]
    assert (told["name"], told["message"]) == ("ValueError", "ValueError: outer\n")
    assert told["cause"]["name"] == "KeyError"
    assert "test_pipes.py" in told["stack"][0]


def test_the_programs_end_needs_the_standard_library_only(tmp_path: Path) -> None:
    copied = tmp_path / "pipes.py"
    copied.write_text(Path(external.__file__).read_text())
    check = "import sys; sys.path[:0] = ['.']; import pipes; sys.exit('servo' in sys.modules)"
    command = [sys.executable, "-I", "-c", check]
    done = subprocess.run(command, cwd=tmp_path, check=False)
    assert done.returncode == 0


def test_what_cannot_be_read_does_not_keep_the_rest_from_being_read(
    context: AssetExecutionContext, log: Log, tmp_path: Path
) -> None:
    reader = PipesFileMessageReader(str(tmp_path / "said"))
    deep = "[" * 100_000 + "]" * 100_000
    with (
        open_pipes_session(context, PipesEnvContextInjector(), reader) as session,
        Path(session.message_reader_params["path"]).open("a") as file,
    ):
        kept = message("report_custom_message", payload=7)
        lines = [json.dumps(message("opened")), deep, json.dumps(kept)]
        _ = file.write("\n".join([*lines, json.dumps(message("closed"))]))
    assert session.get_custom_messages() == (7,)
    assert [line[:43] for line in log.lines] == ["warning pipes: this is not a message: [[[[["]
