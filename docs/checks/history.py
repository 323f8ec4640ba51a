"""A workspace with a past, for recipes to be asked of: good runs, bad ones, checks, a cancel."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event

import pyarrow as pa

from servo import (
    AssetCheckResult,
    AssetCheckSeverity,
    AssetExecutionContext,
    Failure,
    RetryPolicy,
    Skip,
    StaticPartitionsDefinition,
    asset,
    asset_check,
    materialize,
)
from servo.core.events.envelope import Batch
from servo.core.events.runs import PlanCreated, RunCancelRequested, RunRequested
from servo.core.ids import TaskKeyStr
from servo.core.plan import TaskSpec, normalize
from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader, Snapshot
from servo.storage.from_url import store_from_url
from servo.testing.leader import open_service
from servo.workspace.system import SystemClock

amounts: list[int] = []


@asset(group_name="raw", owners=["team:shop"], quarantine=True)
def orders() -> pa.Table:
    Event().wait(0.01)
    return pa.table({"amount": amounts})


@asset_check(asset=orders, blocking=True)
def amounts_are_positive(orders: pa.Table) -> AssetCheckResult:
    wrong = sum(amount <= 0 for amount in orders["amount"].to_pylist())
    return AssetCheckResult(
        passed=not wrong, description=f"{wrong} wrong", metadata={"wrong": wrong}
    )


@asset_check(asset=orders)
def there_are_many(orders: pa.Table) -> AssetCheckResult:
    few = orders.num_rows < 1000
    return AssetCheckResult(
        passed=not few, severity=AssetCheckSeverity.WARN, description="only few"
    )


@asset(group_name="marts", retry_policy=RetryPolicy(max_retries=1))
def revenue(context: AssetExecutionContext, orders: pa.Table) -> int:
    if context.retry_number == 0:
        raise ConnectionError("not there yet")
    return sum(orders["amount"].to_pylist())


@asset(group_name="marts")
def report(revenue: int) -> str:
    return f"{revenue} in all"


@asset(group_name="exports", deps=[report])
def upload() -> None:
    raise Failure("no permission")


@asset(group_name="exports", deps=[report])
def mail() -> Skip:
    return Skip("nobody wants it")


@asset(group_name="exports", deps=[upload])
def after_upload() -> None: ...


@asset(partitions_def=StaticPartitionsDefinition(["eu", "us"]))
def customers(context: AssetExecutionContext) -> str:
    return context.partition_key


EVERYTHING = [
    orders,
    amounts_are_positive,
    there_are_many,
    revenue,
    report,
    upload,
    mail,
    after_upload,
]


@contextmanager
def workspace() -> Iterator[Snapshot]:
    """The newest state of it."""
    with TemporaryDirectory() as folder:
        store = str(Path(folder) / "store")
        for made in ([3, 4], [3, 4, 5], [-1]):
            amounts[:] = made
            materialize(EVERYTHING, store=store, tags={"team": "shop"}, raise_on_error=False)
        amounts[:] = [3, 4, 5, 6]
        materialize(EVERYTHING, selection="orders", store=store)
        materialize([customers], partition_key="eu", store=store)
        _cancel_a_run(store)
        yield Reader(
            store_from_url(store, clock=SystemClock()), Paths("default", "default")
        ).snapshot()


def _cancel_a_run(store: str) -> None:
    task = TaskSpec(task_key=TaskKeyStr("orders:materialize"), asset_key="orders")
    plan = normalize([task])
    run = "run_to_cancel"
    asked = RunRequested(
        run_id=run, run_key="night", request_fingerprint="f", labels={"team": "bi"}
    )
    planned = PlanCreated(run_id=run, fingerprint="f", tasks=plan.tasks)
    stop = RunCancelRequested(run_id=run, requested_by="ada", reason="wrong day")
    with open_service(store) as service:
        service.commit(Batch(id="ask", events=(asked, planned), actor="user:ada"))
        service.commit(Batch(id="stop", events=(stop,), actor="user:ada"))
