"""Where the workers of a test find the code and the workspace."""

from pathlib import Path

from servo.code.process_setup import ProcessSetup
from servo.workspace.address import Address
from servo.workspace.code_location import CodeLocation


def setup_for(  # noqa: PLR0913 - all that a worker is told
    code: str,
    folder: Path,
    store: str,
    *,
    tenant: str = "default",
    workspace: str = "default",
    stays: bool = False,
    as_dagster: bool = False,
) -> ProcessSetup:
    """The setup of a location whose name is its code."""
    location = CodeLocation(name=code, code=code, folder=str(folder), as_dagster=as_dagster)
    return ProcessSetup(
        location=location, address=Address.of(store, tenant, workspace), stays=stays
    )
