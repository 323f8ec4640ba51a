"""An asset that an external program produces."""

import sys
from pathlib import Path

from servo import (
    AssetExecutionContext,
    MaterializeResult,
    PipesSubprocessClient,
    asset,
    materialize,
)

PROGRAM = """
from servo.pipes import open_servo_pipes

with open_servo_pipes() as pipes:
    pipes.log.info("reading %s", pipes.get_extra("table"))
    pipes.report_asset_check("has_rows", passed=True)
    pipes.report_asset_materialization(metadata={"rows": 3}, data_version="2026-01-01")
"""
Path("program.py").write_text(PROGRAM)


@asset
def orders(context: AssetExecutionContext, client: PipesSubprocessClient) -> MaterializeResult:
    """Produced by a program with its own environment."""
    command = [sys.executable, "program.py"]
    done = client.run(command=command, context=context, extras={"table": "raw.orders"})
    found = done.get_materialize_result()
    return MaterializeResult(metadata=found.metadata, data_version=found.data_version)


result = materialize([orders], resources={"client": PipesSubprocessClient()})
print([row.data_version for row in result.materializations])
