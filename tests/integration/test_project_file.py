"""A project file at work: commands from any subfolder, options that win, and `servo init`."""

from pathlib import Path

import pytest

from servo.testing.command_line import asked, listed, queried, servo

ONE = "from servo import asset\n\n@asset\ndef one():\n    return 1\n"
TWO = "from shop.names import NAME\nfrom servo import asset\n\n@asset(name=NAME)\ndef f(): ...\n"


def package(folder: Path) -> None:
    """A project with a package in `src`, and its assets in there."""
    inner = folder / "src" / "shop"
    inner.mkdir(parents=True)
    (inner / "__init__.py").touch()
    (inner / "names.py").write_text('NAME = "two"\n')
    (inner / "assets.py").write_text(TWO)


def test_a_new_project_has_a_project_file_and_is_not_overwritten(tmp_path: Path) -> None:
    done = servo(tmp_path, "init")
    assert "Wrote assets.py, servo.toml, .gitignore" in done.stdout
    assert (tmp_path / ".gitignore").read_text() == ".servo/\n"
    (tmp_path / "deep").mkdir()
    assert servo(tmp_path / "deep", "materialize").returncode == 0
    assert (tmp_path / ".servo").is_dir()
    assert not (tmp_path / "deep" / ".servo").exists()
    (run,) = listed(tmp_path / "deep", "run", "list")
    assert run["location"] == "assets.py"
    before = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert servo(tmp_path, "init").returncode == 4
    after = {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()}
    assert before == after


def test_init_adds_to_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"')
    (tmp_path / ".gitignore").write_text("*.pyc")
    (tmp_path / "assets.py").write_text(ONE)
    done = servo(tmp_path, "init")
    assert "Wrote pyproject.toml, .gitignore" in done.stdout, done.stderr
    assert (tmp_path / "assets.py").read_text() == ONE
    assert (tmp_path / ".gitignore").read_text() == "*.pyc\n.servo/\n"
    told = (tmp_path / "pyproject.toml").read_text()
    assert told.startswith('[project]\nname = "x"\n\n[tool.servo]\n')
    assert not (tmp_path / "servo.toml").exists()
    assert servo(tmp_path, "materialize").returncode == 0


@pytest.mark.slow
def test_a_module_in_src_is_imported_with_and_without_a_project_file(tmp_path: Path) -> None:
    package(tmp_path)
    assert servo(tmp_path, "materialize", "shop.assets").returncode == 0
    (run,) = listed(tmp_path, "run", "list")
    assert run["location"] == "shop.assets"
    (tmp_path / "servo.toml").write_text('[[locations]]\nname = "shop"\nmodule = "shop.assets"\n')
    below = tmp_path / "src" / "shop"
    for code in ((), ("shop",), ("shop.assets",), ("two",)):
        done = servo(below, "materialize", *code)
        assert done.returncode == 0, done.stderr
    assert [row["location"] for row in listed(tmp_path, "run", "list")] == ["shop"] * 4 + [
        "shop.assets"
    ]


def test_what_is_typed_wins_over_the_environment_and_that_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(ONE)
    (tmp_path / "servo.toml").write_text('store = "by_file"\nworkspace = "sales"\n')

    def made(*options: str, **environ: str) -> None:
        done = servo(tmp_path, "materialize", *options, **environ)
        assert done.returncode == 0, done.stderr

    made()
    assert (tmp_path / "by_file" / "default" / "sales").is_dir()
    made(SERVO_STORE="by_environment")
    assert (tmp_path / "by_environment" / "default" / "sales").is_dir()
    made("--store", "typed", "--workspace", "other", SERVO_STORE="by_environment")
    assert (tmp_path / "typed" / "default" / "other").is_dir()


def test_tags_of_the_project_are_those_of_every_run_unless_typed(tmp_path: Path) -> None:
    (tmp_path / "assets.py").write_text(ONE)
    (tmp_path / "servo.toml").write_text('tags = { team = "data", tier = "1" }\n')
    assert servo(tmp_path, "materialize", "--tag", "tier=2").returncode == 0
    (run,) = listed(tmp_path, "run", "list")
    assert (run["labels"]["team"], run["labels"]["tier"]) == ("data", "2")


RETRIED = """
from servo import RetryPolicy, asset, failure_hook

def fail(context):
    raise ValueError(context.retry_number)

@failure_hook
def told(context):
    with open("told", "a") as file:
        file.write("told ")

@asset(hooks={told})
def plain(context):
    fail(context)

@asset(retry_policy=RetryPolicy(max_retries=0))
def never(context):
    fail(context)

@asset(retry_policy=RetryPolicy(max_retries=1))
def once_more(context):
    fail(context)
"""


@pytest.mark.parametrize("code", [(), ("other.py",)])
def test_assets_without_a_retry_policy_have_that_of_the_project(
    tmp_path: Path, code: tuple[str, ...]
) -> None:
    for name in ("assets.py", "other.py"):
        (tmp_path / name).write_text(RETRIED)
    (tmp_path / "servo.toml").write_text(
        '[defaults.retry_policy]\nmax_retries = 2\n\n[[locations]]\nfile = "assets.py"\n'
    )
    done = servo(tmp_path, "materialize", *code)
    assert done.returncode == 1, done
    rows = queried(tmp_path, "select asset_key, attempt from tasks order by asset_key")
    assert {row["asset_key"]: row["attempt"] for row in rows} == {
        "never": 1,
        "once_more": 2,
        "plain": 3,
    }
    assert (tmp_path / "told").read_text() == "told "  # when no retry is left


@pytest.mark.slow
def test_a_selection_means_the_location_that_defines_it(tmp_path: Path) -> None:
    package(tmp_path)
    (tmp_path / "first.py").write_text(ONE)
    locations = '[[locations]]\nfile = "first.py"\n[[locations]]\nmodule = "shop.assets"\n'
    (tmp_path / "servo.toml").write_text(locations)
    wrong = servo(tmp_path, "materialize")
    assert wrong.returncode == 2
    assert "several code locations: first.py, shop.assets; name one of them" in wrong.stderr
    for named in (("first.py",), ("one",), ("first.py", "one")):
        planned = asked(tmp_path, "materialize", *named, "--dry-run")
        assert [task["asset_key"] for task in planned["tasks"]] == ["one"]
    done = servo(tmp_path, "materialize", "two")
    assert done.returncode == 0, done.stderr
    assert [row["location"] for row in listed(tmp_path, "run", "list")] == ["shop.assets"]
    apart = servo(tmp_path, "materialize", "one", "two")
    assert apart.returncode == 2
    assert "one by first.py, two by shop.assets; use one command" in apart.stderr
    preview = servo(tmp_path, "backfill", "preview", "two", "--all")
    assert "two has no partitions" in preview.stderr


def test_check_and_list_cover_every_location(tmp_path: Path) -> None:
    package(tmp_path)
    (tmp_path / "first.py").write_text(ONE)
    locations = '[[locations]]\nfile = "first.py"\n[[locations]]\nmodule = "shop.assets"\n'
    (tmp_path / "servo.toml").write_text(locations)
    checked = servo(tmp_path, "check")
    assert (checked.returncode, checked.stdout) == (
        0,
        "first.py: 1 asset, no errors\nshop.assets: 1 asset, no errors\n",
    )
    shown = servo(tmp_path, "list")
    assert shown.returncode == 0, shown.stderr
    rows = [line.split() for line in shown.stdout.splitlines()]
    assert ["first.py", "one", "default"] in rows
    assert ["shop.assets", "two", "default"] in rows
    found = asked(tmp_path, "list")["items"]
    assert [one["asset_key"] for its in found for one in its["assets"]] == ["one", "two"]
    assert asked(tmp_path, "check")["items"] == found


def test_check_reports_the_errors_of_every_location(tmp_path: Path) -> None:
    (tmp_path / "first.py").write_text(ONE)
    (tmp_path / "same.py").write_text(ONE)
    (tmp_path / "broken.py").write_text("1 / 0\n")
    (tmp_path / "poor.py").write_text(
        "from servo import asset\n@asset(required_resource_keys={'mail'})\ndef poor(): ...\n"
    )
    names = ("first.py", "same.py", "broken.py", "poor.py")
    checked = servo(tmp_path, "check", *names)
    assert (checked.returncode, checked.stdout) == (
        2,
        "first.py: 1 asset, no errors\nsame.py: 1 asset, no errors\n",
    )
    assert "one is defined in both first.py and same.py" in checked.stderr
    assert "broken.py: broken.py cannot be imported" in checked.stderr
    assert "'mail'" in checked.stderr
    shown = servo(tmp_path, "list", *names)
    assert (shown.returncode, "broken.py cannot be imported" in shown.stderr) == (2, True)
    assert {"first.py", "same.py", "poor.py"} <= {*shown.stdout.split()}


def test_a_mistake_in_the_file_stops_every_command(tmp_path: Path) -> None:
    (tmp_path / "servo.toml").write_text('stoer = "x"\n')
    for command in (("status",), ("materialize",), ("list",)):
        wrong = servo(tmp_path, *command)
        assert wrong.returncode == 2
        assert "servo.toml: unknown key stoer; write store" in wrong.stderr
