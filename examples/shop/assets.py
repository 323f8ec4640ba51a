"""A small shop: raw tables, cleaned ones, and what people ask of them, with DuckDB.

servo materialize
servo materialize assets.py '+customer_value'
servo materialize --checks-only
servo sql 'select asset_key, check_name, passed, message from check_results'
"""

import duckdb
import pyarrow as pa

from servo import AssetExecutionContext, asset, checks


@asset(group_name="raw", kinds={"python"})
def raw_customers() -> pa.Table:
    """Who buys."""
    return pa.table({"id": [1, 2, 3], "name": ["ada", "bob", "cyd"]})


@asset(group_name="raw", kinds={"python"})
def raw_orders() -> pa.Table:
    """What was ordered; one line came twice, and one has no customer."""
    return pa.table(
        {
            "id": [10, 11, 11, 12, 13],
            "customer_id": [1, 2, 2, 1, None],
            "cents": [350, 1200, 1200, 99, 500],
        }
    )


@asset(group_name="clean", kinds={"duckdb"})
def orders(context: AssetExecutionContext, raw_orders: pa.Table) -> pa.Table:
    """Every order once, with a customer and an amount."""
    with duckdb.connect() as db:
        db.register("raw_orders", raw_orders)
        clean = db.sql(
            """
            select distinct id, customer_id, cents / 100.0 as amount
            from raw_orders where customer_id is not null order by id
            """
        ).to_arrow_table()
    context.add_output_metadata({"dropped": raw_orders.num_rows - clean.num_rows})
    return clean


@asset(group_name="marts", kinds={"duckdb"})
def customer_value(orders: pa.Table, raw_customers: pa.Table) -> pa.Table:
    """What each customer has spent."""
    with duckdb.connect() as db:
        db.register("orders", orders)
        db.register("customers", raw_customers)
        return db.sql(
            """
            select name, count(orders.id) as orders, coalesce(sum(amount), 0) as spent
            from customers left join orders on customers.id = customer_id
            group by name order by spent desc
            """
        ).to_arrow_table()


shop_checks = [
    checks.row_count(orders, min=1, when="before", blocking=True),
    checks.unique(raw_orders, "id", severity="WARN"),
    checks.unique(orders, "id", blocking=True),
    checks.not_null(orders, ["id", "customer_id", "amount"], blocking=True),
    checks.schema(orders, {"id": int, "customer_id": int, "amount": float}),
    checks.sql(
        customer_value,
        "select abs(sum(spent) - (select sum(amount) from orders)) < 0.01 from customer_value",
        name="nothing_is_lost",
    ),
]
