"""Files in the shape of Dagster's tutorials, run unchanged: they say `import dagster`.

None of them is Dagster's own; each uses what one of its tutorials teaches.
"""

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from servo import load_asset
from servo.testing.command_line import servo

LIMIT = 60

QUICKSTART = """
    import json
    import os

    import dagster as dg


    @dg.asset(group_name="stories", compute_kind="python")
    def story_ids() -> None:
        os.makedirs("data", exist_ok=True)
        with open("data/story_ids.json", "w") as file:
            json.dump([3, 1, 2], file)


    @dg.asset(deps=[story_ids], group_name="stories")
    def stories(context: dg.AssetExecutionContext) -> dg.MaterializeResult:
        with open("data/story_ids.json") as file:
            ids = json.load(file)
        context.log.info(f"found {len(ids)} stories")
        return dg.MaterializeResult(
            metadata={
                "num_records": len(ids),
                "preview": dg.MetadataValue.md("| id |\\n|---|\\n| 3 |"),
                "source": dg.MetadataValue.url("https://example.com"),
            }
        )


    defs = dg.Definitions(assets=[story_ids, stories])
"""

FRAMES = """
    import pandas as pd
    from dagster import AssetExecutionContext, AssetIn, Definitions, Nothing, asset
    from dagster import get_dagster_logger


    @asset(key_prefix=["shop"], owners=["team:data"], tags={"tier": "gold"}, kinds={"pandas"})
    def orders() -> pd.DataFrame:
        get_dagster_logger().info("reading orders")
        return pd.DataFrame({"customer": ["ada", "bob", "ada"], "amount": [1, 2, 3]})


    @asset(ins={"rows": AssetIn(key=["shop", "orders"])})
    def revenue(context: AssetExecutionContext, rows: pd.DataFrame) -> pd.DataFrame:
        context.add_output_metadata({"rows": len(rows)})
        return rows.groupby("customer", as_index=False)["amount"].sum()


    @asset(ins={"revenue": AssetIn(dagster_type=Nothing)})
    def mail():
        return None


    defs = Definitions(assets=[orders, revenue, mail])
"""

RESOURCES = """
    import dagster as dg
    from pydantic import Field


    class Api(dg.ConfigurableResource):
        base_url: str
        token: str = Field(description="never shown")

        def get(self, path: str) -> str:
            return f"{self.base_url}/{path}"


    @dg.asset
    def page(context, api: Api) -> str:
        assert api.token == "from-the-environment"
        return api.get("page")


    @dg.resource(config_schema={"size": dg.Field(int, default_value=7), "name": dg.String})
    def settings(context):
        return dict(context.resource_config)


    @dg.asset(required_resource_keys={"settings", "values"})
    def shown(context: dg.OpExecutionContext, page: str) -> str:
        assert context.resources.settings == {"size": 7, "name": "ada"}
        assert context.resources.values.limit == 3
        return page.upper()


    defs = dg.Definitions(
        assets=[page, shown],
        resources={
            "api": Api(base_url="https://example.com", token=dg.EnvVar("WORD_OF_TUTORIAL")),
            "settings": settings.configured({"name": "ada"}),
            "values": dg.make_values_resource(limit=int).configured({"limit": 3}),
        },
    )
"""

CONFIG = """
    import dagster as dg


    class RequestConfig(dg.Config):
        start: str
        limit: int = 5


    @dg.asset
    def request(config: RequestConfig) -> str:
        return f"{config.start} {config.limit}"


    @dg.asset(config_schema={"shout": dg.Field(bool, default_value=True)})
    def answer(context, request: str) -> str:
        return request.upper() if context.op_config["shout"] else request


    run_config = dg.RunConfig(ops={"request": RequestConfig(start="monday")})

    defs = dg.Definitions(assets=[request, answer])
"""

CHECKS = """
    import dagster as dg


    @dg.asset
    def customers() -> list[dict[str, object]]:
        return [{"id": 1}, {"id": 2}, {"id": None}]


    @dg.asset_check(asset=customers, description="every customer has an id")
    def ids_are_there(customers) -> dg.AssetCheckResult:
        missing = sum(1 for row in customers if row["id"] is None)
        return dg.AssetCheckResult(
            passed=missing == 0,
            severity=dg.AssetCheckSeverity.WARN,
            metadata={"missing": missing},
        )


    @dg.asset_check(asset="customers", blocking=True)
    def there_are_some(customers):
        return dg.AssetCheckResult(passed=len(customers) > 0)


    defs = dg.Definitions(assets=[customers], asset_checks=[ids_are_there, there_are_some])
"""

AUTOMATION = """
    import json
    from datetime import timedelta

    import dagster as dg

    daily = dg.DailyPartitionsDefinition(start_date="2024-01-01", end_date="2024-01-05")
    regions = dg.StaticPartitionsDefinition(["eu", "us"])


    @dg.asset
    def raw() -> int:
        return 1


    @dg.asset(
        deps=[dg.AssetDep("raw", partition_mapping=dg.AllPartitionMapping())],
        partitions_def=dg.MultiPartitionsDefinition({"date": daily, "region": regions}),
        backfill_policy=dg.BackfillPolicy.multi_run(10),
        automation_condition=dg.AutomationCondition.eager().ignore(dg.AssetSelection.keys("raw")),
    )
    def sales(context: dg.AssetExecutionContext):
        keys = context.partition_key.keys_by_dimension
        return keys["date"], keys["region"]


    @dg.asset(
        freshness_policy=dg.FreshnessPolicy.time_window(fail_window=timedelta(hours=24)),
        auto_materialize_policy=dg.AutoMaterializePolicy.eager(),
    )
    def report(raw: int) -> int:
        assert daily.get_partition_keys()[-1] == "2024-01-04"
        return raw + 1


    @dg.schedule(cron_schedule="0 6 * * 1", target=dg.AssetSelection.all())
    def weekly(context: dg.ScheduleEvaluationContext):
        when = context.scheduled_execution_time.strftime("%Y-%m-%d")
        return dg.RunRequest(run_key=when, tags={"date": when})


    @dg.sensor(target="report", minimum_interval_seconds=30)
    def requests(context: dg.SensorEvaluationContext):
        seen = json.loads(context.cursor) if context.cursor else {}
        if seen:
            return dg.SkipReason("nothing new")
        return dg.SensorResult(run_requests=[dg.RunRequest(run_key="a")], cursor="{}")


    @dg.run_failure_sensor(default_status=dg.DefaultSensorStatus.RUNNING)
    def tell(context: dg.RunFailureSensorContext):
        print(context.run)


    defs = dg.Definitions(
        assets=[raw, sales, report],
        schedules=[
            weekly,
            dg.ScheduleDefinition(name="nightly", target="raw", cron_schedule="@daily"),
        ],
        sensors=[
            requests,
            tell,
            dg.AutomationConditionSensorDefinition("automation", target=dg.AssetSelection.all()),
        ],
    )
"""

IO = """
    import dagster as dg


    class Files(dg.ConfigurableIOManager):
        folder: str

        def handle_output(self, context: dg.OutputContext, obj: str) -> None:
            with open(f"{self.folder}/{context.asset_key.path[-1]}.txt", "w") as file:
                file.write(obj)

        def load_input(self, context: dg.InputContext) -> str:
            with open(f"{self.folder}/{context.asset_key.path[-1]}.txt") as file:
                return file.read()


    @dg.asset(retry_policy=dg.RetryPolicy(max_retries=1, backoff=dg.Backoff.EXPONENTIAL))
    def word() -> dg.Output[str]:
        return dg.Output("servo")


    @dg.asset(code_version="2")
    def loud(context, word: str) -> dg.Output:
        return dg.Output(word.upper(), metadata={"length": len(word)})


    defs = dg.Definitions(
        assets=dg.with_resources([word, loud], {"io_manager": Files(folder=".")})
    )
"""


def made(folder: Path, text: str, *arguments: str, **environ: str) -> dict[str, Any]:
    (folder / "tutorial.py").write_text(dedent(text))
    done = servo(
        folder, "materialize", "tutorial.py", *arguments, "--as-dagster", "--json", **environ
    )
    assert done.stdout, done.stderr
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def value(folder: Path, key: str) -> Any:
    return load_asset(key, store=str(folder / ".servo"))


def states(run: dict[str, Any]) -> dict[str, str]:
    return {task["asset_key"]: task["state"] for task in run["tasks"]}


def test_the_quickstart_runs(tmp_path: Path) -> None:
    run = made(tmp_path, QUICKSTART)
    assert states(run) == {"story_ids": "SUCCEEDED", "stories": "SUCCEEDED"}
    logs = servo(tmp_path, "logs", run["run"]["run_id"])
    assert "found 3 stories" in logs.stdout
    told = servo(
        tmp_path, "sql", "select metadata from materializations", "--format", "json"
    ).stdout
    assert "num_records" in told
    assert "| id |" in told


@pytest.mark.slow
def test_frames_go_from_asset_to_asset(tmp_path: Path) -> None:
    run = made(tmp_path, FRAMES)
    assert set(states(run)) == {"shop/orders", "revenue", "mail"}
    frame = value(tmp_path, "revenue")
    assert frame["amount"].to_list() == [4, 2]
    found = json.loads(servo(tmp_path, "list", "tutorial.py", "--as-dagster", "--json").stdout)
    [location] = found["items"]
    listed = location["assets"]
    orders = next(item for item in listed if item["asset_key"] == "shop/orders")
    assert (orders["owners"], orders["tags"]) == (["team:data"], {"tier": "gold"})
    mail = next(item for item in listed if item["asset_key"] == "mail")
    assert mail["upstream"] == ["revenue"]


def test_resources_of_both_kinds_are_there(tmp_path: Path) -> None:
    _ = made(tmp_path, RESOURCES, WORD_OF_TUTORIAL="from-the-environment")
    assert value(tmp_path, "shown") == "HTTPS://EXAMPLE.COM/PAGE"


@pytest.mark.slow
def test_configuration_reaches_models_and_schemas(tmp_path: Path) -> None:
    config: dict[str, Any] = {"ops": {"request": {"config": {"start": "monday"}}}}
    _ = made(tmp_path, CONFIG, "--config", json.dumps(config))
    assert value(tmp_path, "answer") == "MONDAY 5"
    config["ops"]["answer"] = {"config": {"shout": False}}
    _ = made(tmp_path, CONFIG, "--config", json.dumps(config))
    assert value(tmp_path, "answer") == "monday 5"
    config["ops"]["answer"] = {"config": {"shuot": False}}
    wrong = servo(
        tmp_path, "materialize", "tutorial.py", "--config", json.dumps(config), "--as-dagster"
    )
    assert wrong.returncode == 1, wrong
    assert "shuot" in wrong.stdout + wrong.stderr


def test_checks_are_made_and_recorded(tmp_path: Path) -> None:
    run = made(tmp_path, CHECKS)
    assert states(run) == {"customers": "SUCCEEDED"}
    asked = "select check_name, passed, severity from check_results order by 1"
    rows = json.loads(servo(tmp_path, "sql", asked, "--format", "json").stdout)
    assert [(row["check_name"], row["passed"]) for row in rows] == [
        ("ids_are_there", False),
        ("there_are_some", True),
    ]


@pytest.mark.slow
def test_a_job_makes_or_checks_what_it_selects(tmp_path: Path) -> None:
    text = (
        dedent(CHECKS)
        + """
checks = dg.AssetSelection.checks_for_assets(customers)
only = dg.define_asset_job("only", selection=checks)
without = dg.define_asset_job("without", selection=dg.AssetSelection.all() - checks)
defs = dg.Definitions.merge(defs, dg.Definitions(jobs=dg.BindResourcesToJobs([only, without])))
"""
    )
    count = "select count(*) as n from check_results"
    for job, tasks, checked in (("without", ["customers"], 0), ("only", ["customers"], 2)):
        assert list(states(made(tmp_path, text, "--job", job))) == tasks
        told = servo(tmp_path, "sql", count, "--format", "json")
        assert json.loads(told.stdout) == [{"n": checked}], told.stdout


@pytest.mark.slow
def test_automation_is_declared_and_partitions_are_made_by_name(tmp_path: Path) -> None:
    run = made(tmp_path, AUTOMATION, "raw", "report")
    assert states(run) == {"raw": "SUCCEEDED", "report": "SUCCEEDED"}
    checked = servo(tmp_path, "check", "tutorial.py", "--as-dagster")
    assert checked.returncode == 0, checked.stderr
    refused = servo(tmp_path, "materialize", "tutorial.py", "--as-dagster")
    assert refused.returncode == 2, refused
    assert "these assets are partitioned, but no partition was given: sales" in refused.stderr
    one = ("materialize", "tutorial.py", "sales", "--as-dagster", "--partition", "2024-01-04|us")
    assert servo(tmp_path, *one).returncode == 0


def test_an_io_manager_of_the_user_stores_and_loads(tmp_path: Path) -> None:
    _ = made(tmp_path, IO)
    assert (tmp_path / "loud.txt").read_text() == "SERVO"


def test_a_project_of_the_newer_shape_is_gathered_from_its_folder(tmp_path: Path) -> None:
    package = tmp_path / "src" / "etl"
    files = {
        "__init__.py": "",
        "definitions.py": """
            from pathlib import Path

            from dagster import definitions, load_from_defs_folder


            @definitions
            def defs():
                return load_from_defs_folder(path_within_project=Path(__file__).parent)
        """,
        "defs/__init__.py": "",
        "defs/assets.py": """
            import dagster as dg
            from etl.defs.resources import Shelf


            @dg.asset
            def book(shelf: Shelf) -> str:
                return shelf.take()


            @dg.asset_check(asset=book)
            def is_long(book):
                return dg.AssetCheckResult(passed=len(book) > 3)
        """,
        "defs/resources.py": """
            import dagster as dg


            class Shelf(dg.ConfigurableResource):
                title: str

                def take(self) -> str:
                    return self.title


            @dg.definitions
            def resources():
                return dg.Definitions(resources={"shelf": Shelf(title="Emma")})
        """,
        "defs/schedules.py": """
            import dagster as dg

            nightly = dg.ScheduleDefinition(name="nightly", target="*", cron_schedule="@daily")
        """,
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(dedent(text))
    done = servo(tmp_path, "materialize", "src/etl/definitions.py", "--as-dagster")
    assert done.returncode == 0, done.stdout + done.stderr
    assert value(tmp_path, "book") == "Emma"
    (package / "defs" / "jobs.py").write_text("from dagster import job\n\n\n@job\ndef j(): ...\n")
    wrong = servo(tmp_path, "check", "src/etl/definitions.py", "--as-dagster")
    assert wrong.returncode == 2
    assert "src/etl/defs/jobs.py:1: dagster.job" in wrong.stderr


def test_all_that_is_not_supported_is_told_at_once_by_name_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "shared.py").write_text("import dagster\n\nkind = dagster.DynamicOut\n")
    (tmp_path / "tutorial.py").write_text(
        dedent("""\
            import dagster as dg
            from dagster_duckdb import DuckDBResource
            from dagster import graph

            import shared


            @dg.op
            def step(): ...


            @dg.asset(automation_condition=dg.AutomationCondition.on_full_moon())
            def kept(): ...


            raise SystemExit("nothing of this file may run")
        """)
    )
    done = servo(tmp_path, "materialize", "tutorial.py", "--as-dagster")
    assert (done.returncode, done.stdout) == (2, "")
    found = [line.strip().partition(" (")[0] for line in done.stderr.splitlines()]
    assert found[1:-1] == [
        "shared.py:3: dagster.DynamicOut",
        "tutorial.py:2: dagster_duckdb.DuckDBResource",
        "tutorial.py:3: dagster.graph",
        "tutorial.py:8: dagster.op",
        "tutorial.py:12: dagster.AutomationCondition.on_full_moon",
    ]
    assert found[-1].startswith("5 in all; replace them")


def test_without_the_option_the_error_says_that_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "tutorial.py").write_text(dedent(QUICKSTART))
    done = servo(tmp_path, "check", "tutorial.py")
    assert done.returncode == 2
    assert "use --as-dagster" in done.stderr


@pytest.mark.slow
def test_workers_stand_in_too_when_a_run_is_repeated_or_resumed(tmp_path: Path) -> None:
    run = made(tmp_path, QUICKSTART)["run"]["run_id"]
    again = servo(tmp_path, "run", "retry", run, "--all", "--as-dagster", "--json")
    assert states(json.loads(again.stdout)) == {"story_ids": "SUCCEEDED", "stories": "SUCCEEDED"}
    done = servo(tmp_path, "resume", "tutorial.py", "--as-dagster")
    assert done.returncode == 0, done.stderr
