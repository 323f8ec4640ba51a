"""What comes back through a pipe, made into results.

Messages arrive on the thread of a reader and are kept until the session ends. What a program says
wrongly is remembered too, and raised when the session is left: a result that cannot be read is not
the same as no result.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid, ServoError
from servo.pipes import INFER, VERSION_FIELD
from servo.sdk.assets.context import Logger
from servo.sdk.assets.results import DataVersion, MaterializeResult
from servo.sdk.checks.definition import AssetCheckResult, AssetCheckSeverity
from servo.sdk.metadata.entries import (
    MetadataValue,
    TableColumn,
    TableColumnConstraints,
    TableColumnDep,
    TableColumnLineage,
    TableRecord,
    TableSchema,
)

Result = MaterializeResult | AssetCheckResult
_Params = Mapping[str, Any]


class PipesMessageHandler:
    """Takes messages, and keeps what they report."""

    def __init__(self, log: Logger, assets: Sequence[AssetKey]) -> None:
        self._log = log
        self._assets = tuple(assets)
        self.results: list[Result] = []
        self.custom: list[Any] = []
        self.opened = False
        self.closed = False
        self.exception: _Params | None = None
        self.wrong: ServoError | None = None
        self._methods: dict[str, Callable[[_Params], None]] = {
            "opened": self._on_opened,
            "closed": self._on_closed,
            "log": self._on_log,
            "log_external_stream": self._on_stream,
            "report_asset_materialization": self._on_materialization,
            "report_asset_check": self._on_check,
            "report_custom_message": self._on_custom,
        }

    def handle_message(self, message: Mapping[str, Any]) -> None:
        """Take one message."""
        try:
            self._handle(message)
        except ServoError as error:
            self.wrong = self.wrong or error
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the rest is read too
            told = f"the program sent {_short(message)}: {type(error).__name__}: {error}"
            self.wrong = self.wrong or _wrong(told)

    def _handle(self, message: Mapping[str, Any]) -> None:
        method = message.get("method")
        if VERSION_FIELD not in message or not isinstance(method, str):
            raise _wrong(f"the program sent {_short(message)}, which is not a message")
        take = self._methods.get(method)
        if take is None:
            self._log.warning("ignored the message %s, which this version does not know", method)
            return
        take(message.get("params") or {})

    def report_pipes_framework_message(self, text: str) -> None:
        """Log what a reader or injector has to tell."""
        self._log.warning("pipes: %s", text)

    def _on_opened(self, params: _Params) -> None:
        del params
        self.opened = True

    def _on_closed(self, params: _Params) -> None:
        self.closed = True
        self.exception = params.get("exception")

    def _on_log(self, params: _Params) -> None:
        names = {"DEBUG": "debug", "INFO": "info", "WARNING": "warning"}
        getattr(self._log, names.get(params["level"], "error"))("%s", params["message"])

    def _on_stream(self, params: _Params) -> None:
        out = sys.stderr if params["stream"] == "stderr" else sys.stdout
        out.write(params["text"])

    def _on_custom(self, params: _Params) -> None:
        self.custom.append(params["payload"])

    def _on_materialization(self, params: _Params) -> None:
        version = params.get("data_version")
        self.results.append(
            MaterializeResult(
                asset_key=self._key(params["asset_key"]),
                metadata=read_metadata(params.get("metadata")),
                data_version=None if version is None else DataVersion(version),
            )
        )

    def _on_check(self, params: _Params) -> None:
        passed = params["passed"]
        if not isinstance(passed, bool):
            raise _wrong(f"the check {params['check_name']} passed: {passed!r}")
        self.results.append(
            AssetCheckResult(
                asset_key=self._key(params["asset_key"]),
                check_name=params["check_name"],
                passed=passed,
                severity=AssetCheckSeverity(params.get("severity") or "ERROR"),
                metadata=read_metadata(params.get("metadata")),
            )
        )

    def _key(self, text: str) -> AssetKey:
        key = AssetKey.from_user_string(text)
        if self._assets and key not in self._assets:
            made = ", ".join(str(asset) for asset in self._assets)
            raise _wrong(f"the program reported {key}, but the running task materializes {made}")
        return key


def _wrong(told: str) -> Invalid:
    return Invalid(told, remedy="report through servo.pipes or dagster_pipes, which check it")


def _short(message: object, most: int = 300) -> str:
    try:
        text = repr(message)
    except RecursionError:
        text = "a deeply nested message"
    return text if len(text) <= most else f"{text[:most]}…"


# --- metadata -------------------------------------------------------------------------------------


def read_metadata(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Metadata as it comes through a pipe: `{"rows": {"type": "int", "raw_value": 12}}`."""
    return {name: _value(name, value) for name, value in (given or {}).items()}


def _value(name: str, given: Any) -> Any:
    if not isinstance(given, Mapping):
        return given
    typed = cast("Mapping[str, Any]", given)
    kind, raw = typed["type"], typed["raw_value"]
    if kind == INFER:
        return raw
    if kind not in _CONSTRUCTORS:
        raise _wrong(f"the metadata {name!r} has the type {kind!r}, which does not exist")
    return _CONSTRUCTORS[kind](raw)


def _null(raw: Any) -> MetadataValue:
    del raw
    return MetadataValue.null()


def _asset(raw: Any) -> MetadataValue:
    return MetadataValue.asset(AssetKey.from_user_string(raw) if isinstance(raw, str) else raw)


def _schema(columns: Sequence[Mapping[str, Any]]) -> TableSchema:
    return TableSchema([_column(column) for column in columns])


def _column(given: Mapping[str, Any]) -> TableColumn:
    held: dict[str, Any] = given.get("constraints") or {}
    column = TableColumn(
        given["name"],
        given.get("type", "string"),
        given.get("description"),
        tags=given.get("tags") or {},
    )
    return msgspec.structs.replace(column, constraints=TableColumnConstraints(**held))


def _table(raw: Mapping[str, Any]) -> MetadataValue:
    records = [TableRecord(record) for record in raw["records"]]
    schema = raw.get("schema")
    return MetadataValue.table(records, _schema(schema) if schema is not None else None)


def _lineage(raw: Mapping[str, Any]) -> MetadataValue:
    deps = {
        column: [TableColumnDep(**dep) for dep in deps]
        for column, deps in raw["deps_by_column"].items()
    }
    return MetadataValue.table_column_lineage(TableColumnLineage(deps))


_CONSTRUCTORS: dict[str, Callable[[Any], MetadataValue]] = {
    "text": MetadataValue.text,
    "url": MetadataValue.url,
    "path": MetadataValue.path,
    "notebook": MetadataValue.notebook,
    "json": MetadataValue.json,
    "md": MetadataValue.md,
    "float": lambda raw: MetadataValue.float(float(raw)),
    "int": MetadataValue.int,
    "bool": MetadataValue.bool,
    "timestamp": lambda raw: MetadataValue.timestamp(float(raw)),
    "dagster_run": MetadataValue.dagster_run,
    "asset": _asset,
    "null": _null,
    "table": _table,
    "table_schema": lambda raw: MetadataValue.table_schema(_schema(raw["columns"])),
    "table_column_lineage": _lineage,
}
