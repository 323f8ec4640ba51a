"""One program, from the moment its environment is made to the moment its results are known.

with open_pipes_session(context, injector, reader, extras={"table": "orders"}) as session:
    start_somehow(env=session.get_bootstrap_env_vars())
results = session.get_results()
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from servo.core.keys import AssetKey
from servo.errors import Invalid
from servo.execution.pipes.handler import PipesMessageHandler, Result
from servo.execution.pipes.transport import PipesContextInjector, PipesMessageReader, PipesParams
from servo.pipes import CONTEXT_VARIABLE, MESSAGES_VARIABLE, encode_param
from servo.sdk.assets.context import AssetExecutionContext
from servo.sdk.assets.results import MaterializeResult
from servo.sdk.checks.definition import AssetCheckResult


class PipesSession:
    """What a program is to be given, and what it reported."""

    def __init__(
        self,
        assets: Sequence[AssetKey],
        handler: PipesMessageHandler,
        context_injector_params: PipesParams,
        message_reader_params: PipesParams,
    ) -> None:
        self._assets = tuple(assets)
        self.message_handler = handler
        self.context_injector_params = context_injector_params
        self.message_reader_params = message_reader_params

    def get_bootstrap_params(self) -> dict[str, Any]:
        """The parameters of both directions, by the names of their variables."""
        return {
            CONTEXT_VARIABLE: self.context_injector_params,
            MESSAGES_VARIABLE: self.message_reader_params,
        }

    def get_bootstrap_env_vars(self) -> dict[str, str]:
        """Variables for the environment of the program."""
        return {name: encode_param(value) for name, value in self.get_bootstrap_params().items()}

    def get_bootstrap_cli_arguments(self) -> dict[str, str]:
        """The same as arguments for the program's command line, each with its value."""
        found = self.get_bootstrap_env_vars()
        return {f"--{name.lower().replace('_', '-')}": value for name, value in found.items()}

    def get_reported_results(self) -> Sequence[Result]:
        """What the program reported, in its order."""
        return tuple(self.message_handler.results)

    def get_results(self, *, implicit_materializations: bool = True) -> Sequence[Result]:
        """What was reported; assets that were not reported were made too, unless told otherwise."""
        found = list(self.get_reported_results())
        if not implicit_materializations:
            return found
        told = {result.asset_key for result in found if isinstance(result, MaterializeResult)}
        return [*found, *(MaterializeResult(asset_key=k) for k in self._assets if k not in told)]

    def get_custom_messages(self) -> Sequence[Any]:
        """What the program sent besides."""
        return tuple(self.message_handler.custom)


class PipesClientCompletedInvocation:
    """A program that has ended well."""

    def __init__(self, session: PipesSession) -> None:
        self._session = session

    def get_results(self, *, implicit_materializations: bool = True) -> Sequence[Result]:
        """See `PipesSession.get_results`."""
        return self._session.get_results(implicit_materializations=implicit_materializations)

    def get_materialize_result(self, *, implicit_materialization: bool = True) -> MaterializeResult:
        """The one asset that was made, with what its checks found."""
        found = self.get_results(implicit_materializations=implicit_materialization)
        made = [result for result in found if isinstance(result, MaterializeResult)]
        if len(made) != 1:
            told = ", ".join(str(result.asset_key) for result in made) or "none"
            raise Invalid(
                f"expected a report of one asset, got: {told}",
                remedy="use get_results() for several",
            )
        checks = [result for result in found if isinstance(result, AssetCheckResult)]
        return msgspec.structs.replace(made[0], check_results=[*made[0].check_results, *checks])

    def get_asset_check_result(self) -> AssetCheckResult:
        """The one check that was reported."""
        found = self.get_results(implicit_materializations=False)
        if len(found) != 1 or not isinstance(found[0], AssetCheckResult):
            raise Invalid(
                f"expected one check result, got {len(found)}",
                remedy="use get_results() for all of them",
            )
        return found[0]

    def get_custom_messages(self) -> Sequence[Any]:
        """What the program sent besides."""
        return self._session.get_custom_messages()


@contextmanager
def open_pipes_session(
    context: AssetExecutionContext,
    context_injector: PipesContextInjector,
    message_reader: PipesMessageReader,
    extras: Mapping[str, Any] | None = None,
) -> Generator[PipesSession]:
    """Tell a program its context and read what it answers, for as long as it runs."""
    assets = _assets_of(context)
    handler = PipesMessageHandler(context.log, assets)
    data = context_data(context, extras)
    with (
        context_injector.inject_context(data) as inject,
        message_reader.read_messages(handler) as read,
    ):
        yield PipesSession(assets, handler, dict(inject), dict(read))
    if handler.wrong is not None:
        raise handler.wrong
    if not handler.opened:
        handler.report_pipes_framework_message(
            "the program sent no messages; does it call open_servo_pipes()? "
            f"({context_injector.no_messages_debug_text()}, "
            f"{message_reader.no_messages_debug_text()})"
        )
    elif not handler.closed:
        handler.report_pipes_framework_message("the program did not close its pipe")


def context_data(
    context: AssetExecutionContext, extras: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """What a program is told about the execution."""
    keys = [key.to_user_string() for key in _assets_of(context)]
    partitions = _partitions(context)
    return {
        "asset_keys": keys or None,
        "code_version_by_asset_key": dict.fromkeys(keys) if keys else None,
        "provenance_by_asset_key": dict.fromkeys(keys) if keys else None,
        **partitions,
        "run_id": context.run_id,
        "job_name": getattr(context, "job_name", None),
        "retry_number": context.retry_number,
        "extras": dict(extras or {}),
    }


def _assets_of(context: AssetExecutionContext) -> list[AssetKey]:
    """The assets that are being made, in one order."""
    several = getattr(context, "selected_asset_keys", None)
    return sorted(several) if several else [context.asset_key]


def _partitions(context: AssetExecutionContext) -> dict[str, Any]:
    if not getattr(context, "has_partition_key", False):
        return dict.fromkeys(("partition_key", "partition_key_range", "partition_time_window"))
    key = str(getattr(context, "partition_key", ""))
    return {
        "partition_key": key,
        "partition_key_range": {"start": key, "end": key},
        "partition_time_window": _window(context),
    }


def _window(context: AssetExecutionContext) -> dict[str, str] | None:
    try:
        window = getattr(context, "partition_time_window", None)
    except Exception:  # noqa: BLE001 - a partition that is not a time has none
        return None
    if window is None:
        return None
    return {"start": window.start.isoformat(), "end": window.end.isoformat()}
