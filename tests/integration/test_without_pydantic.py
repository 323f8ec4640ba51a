"""Who uses no configuration does not pay for Pydantic: neither the leader nor its workers."""

import subprocess
import sys
from pathlib import Path

import pytest

ASSETS = """
import sys
from pathlib import Path
import servo

{more}

@servo.asset
def plain({parameter}):
    Path("seen").write_text(str("pydantic" in sys.modules))
    return 1

@servo.asset_check(asset=plain)
def is_one(plain):
    return servo.AssetCheckResult(passed=plain == 1)
"""
LEAD = """
import sys
from servo.cli.main import main
sys.argv = ["servo", "materialize", "assets.py"]
try:
    main()
finally:
    print("leader", "pydantic" in sys.modules)
"""
CONFIG = """
class Options(servo.Config):
    limit: int = 3
"""


@pytest.mark.parametrize(
    ("more", "parameter", "used"),
    [("", "", "False"), (CONFIG, "config: Options", "True")],
    ids=["no config", "a config"],
)
def test_pydantic_is_imported_where_a_project_uses_it(
    tmp_path: Path, more: str, parameter: str, used: str
) -> None:
    code = ASSETS.format(more=more, parameter=parameter)
    (tmp_path / "assets.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "-c", LEAD], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"leader {used}" in done.stdout, done.stderr
    assert (tmp_path / "seen").read_text() == used
