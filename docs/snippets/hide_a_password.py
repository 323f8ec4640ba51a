"""A resource with a password that only the worker knows."""

import os

from servo import ConfigurableResource, EnvSecrets, Secret, asset, materialize

os.environ.update(SHOP_DB_KEY="open sesame")  # as whoever starts the worker would


class Warehouse(ConfigurableResource):
    """Knows its password, and does not show it."""

    password: str

    def count(self) -> int:
        """Ask the warehouse."""
        print("logged in with", self.password)
        return len(self.password)


@asset
def orders(warehouse: Warehouse) -> int:
    """Uses the warehouse."""
    return warehouse.count()


result = materialize(
    [orders],
    resources={"warehouse": Warehouse(password=Secret("db_key"))},
    secrets=[EnvSecrets(prefix="SHOP_")],
)
print(result.asset_value("orders"))
