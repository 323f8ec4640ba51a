"""An IO manager that stores one asset's rows in a CSV file."""

import csv
from pathlib import Path

from servo import (
    ConfigurableIOManager,
    FilesystemIOManager,
    InputContext,
    OutputContext,
    asset,
    materialize,
)

Rows = list[dict[str, str]]


class CsvFiles(ConfigurableIOManager):
    """One CSV file for each asset, where other programs find it."""

    folder: str

    def handle_output(self, context: OutputContext, obj: Rows) -> None:
        path = Path(self.folder, *context.asset_key.parts).with_suffix(".csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(obj[0]))
            writer.writeheader()
            writer.writerows(obj)
        context.add_output_metadata({"path": str(path), "rows": len(obj)})

    def load_input(self, context: InputContext) -> Rows:
        path = Path(self.folder, *context.asset_key.parts).with_suffix(".csv")
        with path.open(newline="") as file:
            return list(csv.DictReader(file))


@asset(io_manager_key="csv", key_prefix="exports")
def customers() -> Rows:
    return [{"name": "ada"}, {"name": "bob"}]


@asset(io_manager_key="files")
def names(customers: Rows) -> list[str]:
    return [row["name"] for row in customers]


@asset
def greeting(names: list[str]) -> str:
    return f"hello {' and '.join(names)}"


resources = {"csv": CsvFiles(folder="out"), "files": FilesystemIOManager(base_dir="pickles")}
result = materialize([customers, names, greeting], resources=resources)
print(result.asset_value("greeting"), Path("out/exports/customers.csv").read_text().split())
