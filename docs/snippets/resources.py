"""A database resource with a nested login, and a configurable asset."""

import os

import duckdb
from pydantic import PrivateAttr

from servo import (
    Config,
    ConfigurableResource,
    EnvVar,
    InitResourceContext,
    RunConfig,
    asset,
    materialize,
)


class Login(ConfigurableResource):
    """Credentials."""

    user: str
    password: str


class Warehouse(ConfigurableResource):
    """A database that is opened for each execution."""

    login: Login
    path: str = ":memory:"
    _db: duckdb.DuckDBPyConnection = PrivateAttr()

    def setup_for_execution(self, context: InitResourceContext) -> None:
        self._db = duckdb.connect(self.path)

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        self._db.close()

    def column(self, sql: str, *values: object) -> list[int]:
        return [row[0] for row in self._db.execute(sql, values).fetchall()]


class OrdersConfig(Config):
    """Configuration of the orders."""

    limit: int = 3


@asset
def orders(config: OrdersConfig, warehouse: Warehouse) -> list[int]:
    return warehouse.column("select n * 100 from range(?) t(n)", config.limit)


os.environ["WAREHOUSE_PASSWORD"] = "for this example only"
login = Login(user="etl", password=EnvVar("WAREHOUSE_PASSWORD"))
warehouse = Warehouse(login=login)
print(warehouse)

result = materialize([orders], resources={"warehouse": warehouse})
print(result.asset_value("orders"))

more = RunConfig(ops={"orders": OrdersConfig(limit=5)})
result = materialize([orders], resources={"warehouse": warehouse}, run_config=more)
print(result.asset_value("orders"))
