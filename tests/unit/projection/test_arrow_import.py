"""How pyarrow is imported: lazily, and without what it does not need."""

import subprocess
import sys

import pytest

CODE = """
import sys
from servo.projection.files import arrow
{before}
arrow.pa.table({{"a": [1]}})
print(arrow.pa.default_memory_pool().backend_name, "pandas" in sys.modules)
print("numpy" in sys.modules)
{after}
"""


def told(before: str, after: str = "") -> str:
    code = CODE.format(before=before, after=after)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_a_process_without_user_code_does_without_pandas() -> None:
    after = "import pandas; print(len(pandas.DataFrame({'a': [1]})))"
    assert told("arrow.without_pandas()", after) == "system False\nFalse\n1"


def test_a_process_whose_user_code_has_numpy_lets_pyarrow_have_it() -> None:
    after = "print(arrow.pa.array([1, 2]).to_numpy().sum())"
    assert told("import numpy; arrow.without_pandas()", after) == "system False\nTrue\n3"


def test_a_pyarrow_that_needs_numpy_gets_it() -> None:
    """As versions before 18 did: the first import fails, and the second finds what it asks for."""
    before = """
real = arrow.import_module
def picky(name):
    if name == "pyarrow":
        real("numpy")
    return real(name)
arrow.import_module = picky
arrow.without_pandas()
"""
    assert told(before) == "system False\nTrue"


@pytest.mark.parametrize("before", ["", "import pandas; arrow.without_pandas()"])
def test_pandas_of_user_code_is_left_alone(before: str) -> None:
    after = "print(len(arrow.pa.table({'a': [1]}).to_pandas()))"
    assert told(before, after).endswith("True\nTrue\n1")
