"""A resource with a password that only the worker reads."""

import os

from servo import ConfigurableResource, EnvSecrets, Secret, asset, materialize

os.environ.update(SHOP_DB_KEY="open sesame")  # normally set in the worker's environment


class Warehouse(ConfigurableResource):
    """Needs a password."""

    password: str

    def count(self) -> int:
        """Log in and count."""
        print("logged in with", self.password)
        return len(self.password)


@asset
def orders(warehouse: Warehouse) -> int:
    """Count orders."""
    return warehouse.count()


result = materialize(
    [orders],
    resources={"warehouse": Warehouse(password=Secret("db_key"))},
    secrets=[EnvSecrets(prefix="SHOP_")],
)
print(result.asset_value("orders"))
