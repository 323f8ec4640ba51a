"""A small shop: files of customers, orders and payments, cleaned and joined with DuckDB.

servo materialize
servo materialize assets.py '+customer_value'
servo materialize --checks-only
servo sql "select asset_key, check_name, passed, message from check_results"
"""

import time
from pathlib import Path

import duckdb
import pyarrow as pa

from servo import (
    AssetCheckResult,
    AssetExecutionContext,
    ConfigurableResource,
    Definitions,
    RetryPolicy,
    asset,
    asset_check,
    checks,
    load_asset_checks_from_current_module,
    load_assets_from_current_module,
)

RETRY = RetryPolicy(max_retries=2, delay=0.2)


class Duck(ConfigurableResource):
    """DuckDB. `pace` slows every query down by so many seconds, to watch a run."""

    folder: str = str(Path(__file__).parent / "data")
    pace: float = 0

    def read(self, name: str) -> pa.Table:
        """Read a CSV file of the shop."""
        return self.query(f"from read_csv('{self.folder}/{name}.csv')")

    def query(self, sql: str, **tables: pa.Table) -> pa.Table:
        """Run a query over tables."""
        time.sleep(self.pace)
        with duckdb.connect() as db:
            for name, table in tables.items():
                db.register(name, table)
            return db.sql(sql).to_arrow_table()


# --- raw ------------------------------------------------------------------------------------------


@asset(group_name="raw", kinds={"csv"}, retry_policy=RETRY)
def raw_customers(duck: Duck) -> pa.Table:
    """All customers."""
    return duck.read("customers")


@asset(group_name="raw", kinds={"csv"}, retry_policy=RETRY)
def raw_orders(duck: Duck) -> pa.Table:
    """All orders; one line is duplicated, and one has no customer."""
    return duck.read("orders")


@asset(group_name="raw", kinds={"csv"}, retry_policy=RETRY)
def raw_payments(duck: Duck) -> pa.Table:
    """All payments, in cents."""
    return duck.read("payments")


# --- cleaned --------------------------------------------------------------------------------------


@asset(group_name="clean", kinds={"duckdb"}, retry_policy=RETRY)
def customers(duck: Duck, raw_customers: pa.Table) -> pa.Table:
    """Customers with their full names."""
    sql = "select id as customer_id, first_name || ' ' || last_name as name from raw"
    return duck.query(sql, raw=raw_customers)


@asset(group_name="clean", kinds={"duckdb"}, retry_policy=RETRY)
def orders(context: AssetExecutionContext, duck: Duck, raw_orders: pa.Table) -> pa.Table:
    """Orders without duplicates, each with a customer."""
    sql = """
        select distinct id as order_id, customer_id, ordered_on, status
        from raw where customer_id is not null order by order_id
    """
    clean = duck.query(sql, raw=raw_orders)
    context.add_output_metadata({"dropped": raw_orders.num_rows - clean.num_rows})
    return clean


@asset(group_name="clean", kinds={"duckdb"}, retry_policy=RETRY, quarantine=True)
def payments(duck: Duck, raw_payments: pa.Table) -> pa.Table:
    """Payments. If the check below fails, downstream assets use the last good version."""
    sql = "select id as payment_id, order_id, method, cents / 100 as amount from raw"
    return duck.query(sql, raw=raw_payments)


@asset_check(asset=payments, blocking=True)
def no_negative_payments(duck: Duck, payments: pa.Table) -> AssetCheckResult:
    """A negative payment is a mistake in the file."""
    sql = "select payment_id, amount from payments where amount < 0"
    wrong = duck.query(sql, payments=payments)
    found = ", ".join(
        f"payment {row['payment_id']} is {row['amount']}" for row in wrong.to_pylist()
    )
    return AssetCheckResult(passed=not found, description=found or "no payment is negative")


# --- marts ----------------------------------------------------------------------------------------


@asset(group_name="marts", kinds={"duckdb"}, retry_policy=RETRY)
def order_totals(duck: Duck, orders: pa.Table, payments: pa.Table) -> pa.Table:
    """The total of each order."""
    sql = """
        select order_id, customer_id, ordered_on, coalesce(sum(amount), 0) as total
        from orders left join payments using (order_id) group by all order by order_id
    """
    return duck.query(sql, orders=orders, payments=payments)


@asset(group_name="marts", kinds={"duckdb"}, retry_policy=RETRY)
def customer_value(duck: Duck, customers: pa.Table, order_totals: pa.Table) -> pa.Table:
    """How much each customer spent, highest first."""
    sql = """
        select name, count(order_id) as orders, coalesce(sum(total), 0) as spent
        from customers left join order_totals using (customer_id)
        group by name order by spent desc, name
    """
    return duck.query(sql, customers=customers, order_totals=order_totals)


@asset(group_name="marts", kinds={"duckdb"}, retry_policy=RETRY)
def revenue_by_day(duck: Duck, order_totals: pa.Table) -> pa.Table:
    """Revenue by day."""
    sql = "select ordered_on, sum(total) as revenue from totals group by all order by all"
    return duck.query(sql, totals=order_totals)


shop_checks = [
    checks.unique(raw_orders, "id", severity="WARN"),
    checks.row_count(orders, min=1, when="before", blocking=True),
    checks.unique(orders, "order_id", blocking=True),
    checks.not_null(orders, ["order_id", "customer_id"], blocking=True),
    checks.sql(
        customer_value,
        "select abs(sum(spent) - (select sum(total) from order_totals)) < 0.01 from customer_value",
        name="totals_match",
    ),
]

defs = Definitions(
    assets=load_assets_from_current_module(),
    asset_checks=load_asset_checks_from_current_module(),
    resources={"duck": Duck()},
)
