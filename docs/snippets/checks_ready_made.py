"""Ready-made checks."""

from datetime import timedelta

from servo import asset, checks, materialize


@asset
def orders() -> list[dict[str, object]]:
    """All orders."""
    return [
        {"id": 1, "shop": "north", "amount": 350, "at": "2026-03-01T10:00:00+00:00"},
        {"id": 2, "shop": "south", "amount": 1200, "at": "2026-03-01T11:30:00+00:00"},
    ]


orders_checks = [
    checks.row_count(orders, min=1, min_ratio=0.5, blocking=True),
    checks.not_null(orders, ["id", "amount"], blocking=True),
    checks.unique(orders, ["shop", "id"]),
    checks.schema(orders, {"id": "int64", "amount": int, "shop": str}),
    checks.freshness(orders, max_age=timedelta(days=36_500), column="at", severity="WARN"),
    checks.sql(orders, "select count(*) = 0 from orders where amount < 0"),
]


if __name__ == "__main__":
    print(materialize([orders, *orders_checks]).success)
