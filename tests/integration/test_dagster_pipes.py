"""Dagster's own end of a pipe against ours: programs that were written for Dagster run unchanged.

Skipped where `dagster_pipes` is not installed, which `make setup` does.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from servo import (
    AssetCheckResult,
    AssetCheckSeverity,
    DataVersion,
    MaterializeResult,
    MetadataValue,
    PipesEnvContextInjector,
    PipesExecutionError,
    PipesSubprocessClient,
    build_asset_context,
)
from servo.core.keys import AssetKey

pytestmark = pytest.mark.skipif(
    find_spec("dagster_pipes") is None,
    reason="dagster_pipes is not installed: nothing here was tested against Dagster's own end",
)

PROGRAM = """
from dagster_pipes import PipesContext, open_dagster_pipes

with open_dagster_pipes() as pipes:
    assert PipesContext.get() is pipes
    pipes.log.info("made %s in %s", pipes.asset_key, pipes.run_id)
    told = [pipes.asset_keys, pipes.retry_number, pipes.partition_key, dict(pipes.extras)]
    pipes.report_custom_message(told + [pipes.is_asset_step, pipes.job_name, pipes.code_version])
    pipes.report_asset_check("few", passed=False, severity="WARN", metadata={"rows": 3})
    pipes.report_asset_materialization(
        metadata={"rows": 3, "where": {"raw_value": "/x", "type": "path"}}, data_version="v1"
    )
"""


@pytest.mark.parametrize("injector", [None, PipesEnvContextInjector()])
def test_a_program_that_was_written_for_dagster_runs_unchanged(
    injector: PipesEnvContextInjector | None, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    key = AssetKey(["shop", "orders"])
    context = build_asset_context(asset_key=key, run_id="run_1", partition_key="p", retry_number=1)
    done = PipesSubprocessClient(context_injector=injector).run(
        command=[sys.executable, str(program)], context=context, extras={"n": [1]}
    )
    check = AssetCheckResult(
        asset_key=key,
        check_name="few",
        passed=False,
        severity=AssetCheckSeverity.WARN,
        metadata={"rows": 3},
    )
    assert done.get_materialize_result() == MaterializeResult(
        asset_key=key,
        metadata={"rows": 3, "where": MetadataValue.path("/x")},
        data_version=DataVersion("v1"),
        check_results=[check],
    )
    told = [["shop/orders"], 1, "p", {"n": [1]}, True, None, None]
    assert list(done.get_custom_messages()) == [told]


def test_what_such_a_program_raises_is_told(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        "from dagster_pipes import open_dagster_pipes\n"
        "with open_dagster_pipes() as pipes:\n"
        "    raise ValueError('no rows')\n"
    )
    command = [sys.executable, str(program)]
    with pytest.raises(PipesExecutionError, match="it raised ValueError: no rows"):
        PipesSubprocessClient().run(command=command, context=build_asset_context(asset_key="a"))
