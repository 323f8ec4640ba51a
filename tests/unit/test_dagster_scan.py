"""Finding what is not supported before anything is imported, and standing in for `dagster`."""

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from types import ModuleType

import pytest

import servo.dagster
from servo.code.loader import load_project
from servo.dagster.scan import check_supported, found_in, own_files
from servo.dagster.stand_in import stand_in, standing_in, step_down
from servo.errors import Conflict, Invalid


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(dedent(text))
    return folder / next(iter(files))


def used(folder: Path, text: str) -> list[tuple[int, str]]:
    path = write(folder, {"file.py": text})
    return [(item.line, item.name) for item in found_in(path, folder)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import dagster as dg\ndg.asset\ndg.op\n", [(3, "dagster.op")]),
        ("import dagster\ndagster.graph\n", [(2, "dagster.graph")]),
        ("from dagster import asset, job as j\n", [(1, "dagster.job")]),
        ("from dagster import *\n", []),
        ("from dagster import NoSuchThing\n", [(1, "dagster.NoSuchThing")]),
        ("import dagster.components\n", [(1, "dagster.components")]),
        (
            "from dagster._core.x import y, z\n",
            [(1, "dagster._core.x.y"), (1, "dagster._core.x.z")],
        ),
        ("import dagster_dbt as d\n", [(1, "dagster_dbt")]),
        ("from dagster_pandas.x import y\n", [(1, "dagster_pandas.x.y")]),
        (
            "import dagster as dg\ndg.MetadataValue.md\ndg.MetadataValue.moo\n",
            [(3, "dagster.MetadataValue.moo")],
        ),
        (
            "from dagster import AssetSelection as S\nS.all\nS.some\n",
            [(3, "dagster.AssetSelection.some")],
        ),
        ("import dagster as dg\n(dg\n .asset, dg\n .op)\n", [(4, "dagster.op")]),
        ("def f():\n    from dagster import op\n", [(2, "dagster.op")]),
        ("import dagster as dg\ndef f(c: dg.GraphOut): ...\n", [(2, "dagster.GraphOut")]),
        (
            "if TYPE_CHECKING:\n    from dagster_dbt import X\nelse:\n    import dagster_aws\n",
            [(4, "dagster_aws")],
        ),
        ("try:\n    import dagster_dbt\nexcept ImportError:\n    pass\n", []),
        (
            "try:\n    import dagster as dg\nexcept ImportError:\n    pass\ndg.op\n",
            [(5, "dagster.op")],
        ),
        ("try:\n    import dagster_dbt\nexcept ValueError:\n    pass\n", [(2, "dagster_dbt")]),
        ("from .dagster import op\nimport mydagster\nx.op\ndagsterlike = 1\n", []),
        ("import dagster as dg\nprint(dg.__version__)\n", []),
        ("def broken(:\n", []),
    ],
)
def test_what_is_not_supported_is_found(
    tmp_path: Path, text: str, found: list[tuple[int, str]]
) -> None:
    assert used(tmp_path, text) == found


def test_the_projects_own_modules_are_followed_and_no_others(tmp_path: Path) -> None:
    start = write(
        tmp_path,
        {
            "app/main.py": "import json, pkg.deep.leaf\nfrom pkg import side\nimport beside\n",
            "app/beside.py": "",
            "app/unused.py": "",
            "pkg/__init__.py": "",
            "pkg/side.py": "from . import near\nfrom .deep import other\n",
            "pkg/near.py": "import pkg.side\n",
            "pkg/unused.py": "",
            "pkg/deep/__init__.py": "",
            "pkg/deep/leaf.py": "from .. import near\n",
            "pkg/deep/other.py": "",
        },
    )
    files = {str(path.relative_to(tmp_path)) for path in own_files(start, tmp_path)}
    assert files == {
        "app/main.py",
        "app/beside.py",
        "pkg/__init__.py",
        "pkg/side.py",
        "pkg/near.py",
        "pkg/deep/__init__.py",
        "pkg/deep/leaf.py",
        "pkg/deep/other.py",
    }


def test_a_package_that_is_loaded_whole_is_looked_at_whole(tmp_path: Path) -> None:
    start = write(
        tmp_path,
        {
            "defs.py": "import pkg\nfrom dagster import load_assets_from_package_module as load\n",
            "pkg/__init__.py": "",
            "pkg/unseen.py": "from dagster import op\n",
        },
    )
    assert tmp_path / "pkg" / "unseen.py" in own_files(start, tmp_path)


def test_a_module_is_found_by_its_name(tmp_path: Path) -> None:
    _ = write(tmp_path, {"shop/assets.py": "from dagster import op\n", "shop/__init__.py": ""})
    with pytest.raises(
        Invalid, match=r"shop.assets uses features that Servo does not support:\n  shop/assets.py:1"
    ):
        check_supported("shop.assets", tmp_path)
    check_supported("shop.nothing", tmp_path)
    check_supported("nothing.py", tmp_path)


# --- standing in ----------------------------------------------------------------------------------


@pytest.fixture
def clean() -> Iterator[None]:
    before = dict(sys.modules)
    yield
    step_down()
    for name in set(sys.modules) - set(before):
        if not name.startswith("servo"):
            del sys.modules[name]


@pytest.mark.usefixtures("clean")
def test_the_name_leads_to_ours_for_as_long_as_it_should() -> None:
    with standing_in():
        assert importlib.import_module("dagster") is servo.dagster
        with pytest.raises(ModuleNotFoundError, match=r"dagster.names is not supported"):
            _ = importlib.import_module("dagster.names")
    with pytest.raises(ModuleNotFoundError, match="No module named 'dagster'"):
        _ = importlib.import_module("dagster")
    stand_in()
    stand_in()
    assert sum(type(finder).__name__ == "_Submodules" for finder in sys.meta_path) == 1


@pytest.mark.usefixtures("clean")
def test_the_real_one_is_not_replaced_once_it_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ModuleType("dagster")
    monkeypatch.setitem(sys.modules, "dagster", real)
    with pytest.raises(Conflict, match="dagster is already imported"):
        stand_in()
    assert sys.modules["dagster"] is real


@pytest.mark.usefixtures("clean")
def test_a_project_is_loaded_as_if_it_were_dagsters(tmp_path: Path) -> None:
    text = """
        import dagster as dg

        @dg.asset
        def orders(): ...
    """
    _ = write(tmp_path, {"shop_of_dagster.py": text})
    with pytest.raises(Invalid, match="use --as-dagster"):
        _ = load_project("shop_of_dagster.py", tmp_path)
    project = load_project("shop_of_dagster.py", tmp_path, as_dagster=True)
    assert [str(key) for key in project.order] == ["orders"]


def test_a_file_in_a_package_may_import_from_it(tmp_path: Path) -> None:
    _ = write(
        tmp_path,
        {
            "src/shop_in_a_package/assets.py": """
                from servo import asset
                from .words import WORD
                from shop_in_a_package.words import WORD as SAME

                @asset(name=WORD)
                def named(): ...
            """,
            "src/shop_in_a_package/__init__.py": "",
            "src/shop_in_a_package/words.py": "WORD = 'hello'\n",
        },
    )
    project = load_project("src/shop_in_a_package/assets.py", tmp_path)
    assert [str(key) for key in project.order] == ["hello"]
