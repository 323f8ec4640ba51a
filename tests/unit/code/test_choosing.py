"""Which of several code locations is meant by what is selected."""

from pathlib import Path

import pytest

from servo.code.choosing import location_defining
from servo.errors import Invalid, NotFound, ServoError
from servo.workspace.code_location import CodeLocation

SALES = """
from servo import asset, define_asset_job

@asset(group_name="daily")
def orders():
    return 1

@asset(group_name="daily")
def totals(orders):
    return orders

everything = define_asset_job("everything")
only_sales = define_asset_job("only_sales")
"""
STOCK = """
from servo import AssetSpec, asset, define_asset_job

@asset(deps=[AssetSpec("orders")], group_name="daily")
def shelves():
    return 1

outside = AssetSpec("orders")
everything = define_asset_job("everything")
"""


@pytest.fixture
def both(tmp_path: Path) -> list[CodeLocation]:
    """Two locations of one project; `orders` is made by the first and known to the second."""
    (tmp_path / "sales.py").write_text(SALES)
    (tmp_path / "stock.py").write_text(STOCK)
    return [located(tmp_path, "sales.py"), located(tmp_path, "stock.py")]


def located(folder: Path, code: str) -> CodeLocation:
    return CodeLocation(name=code, code=code, folder=str(folder))


@pytest.mark.parametrize(
    ("select", "name"),
    [
        (["orders"], "sales.py"),
        (["orders", "totals"], "sales.py"),
        (["+totals"], "sales.py"),
        (['group:"daily" and key:"s*"'], "stock.py"),
        (["shelves"], "stock.py"),
    ],
)
def test_the_location_is_the_one_that_makes_what_is_selected(
    both: list[CodeLocation], select: list[str], name: str
) -> None:
    assert location_defining(both, select).name == name
    assert location_defining(both[::-1], select).name == name


def test_a_job_names_its_location(both: list[CodeLocation]) -> None:
    assert location_defining(both, [], job="only_sales") is both[0]


@pytest.mark.parametrize(
    ("select", "job", "kind", "told"),
    [
        (
            ['group:"daily"'],
            None,
            Invalid,
            'group:"daily" is in several code locations: sales.py, stock.py; name one of them',
        ),
        (["orders+"], None, Invalid, "orders+ is in several code locations: sales.py, stock.py"),
        ([], "everything", Invalid, "job everything is in several code locations: sales.py, stock"),
        (
            ["orders", "shelves"],
            None,
            Invalid,
            "no single code location defines everything selected: "
            "orders by sales.py, shelves by stock.py",
        ),
        (
            ["order"],
            None,
            NotFound,
            "none of the code locations sales.py, stock.py defines order; see `servo list",
        ),
        ([], "nightly", NotFound, "defines job nightly"),
        (["key:"], None, Invalid, "key:"),
    ],
)
def test_what_is_not_one_location_is_told_with_the_names(
    both: list[CodeLocation],
    select: list[str],
    job: str | None,
    kind: type[ServoError],
    told: str,
) -> None:
    with pytest.raises(kind) as refused:
        _ = location_defining(both, select, job=job)
    assert told in str(refused.value)


def test_a_location_that_does_not_import_does_not_stop_the_others(
    both: list[CodeLocation], tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("import nothing_like_it\n")
    locations = [*both, located(tmp_path, "broken.py")]
    assert location_defining(locations, ["orders"]) is both[0]
    with pytest.raises(NotFound, match=r"defines letters; broken\.py cannot be imported: .*servo"):
        _ = location_defining(locations, ["letters"])


def test_the_only_location_is_meant_by_whatever_is_selected(both: list[CodeLocation]) -> None:
    assert location_defining(both[1:], ["orders"]) is both[1]
