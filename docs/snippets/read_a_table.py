"""Read one table from its Parquet files, by the rules of the manifest."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

store = Path(".servo")
newest = max((store / "default/default/manifests/orchestration").glob("*.json"))
manifest = json.loads(newest.read_bytes())["body"]

rows: dict[str, tuple[Any, Any]] = {}
for file in manifest["tables"]["runs"]["files"]:
    data = (store / file["key"]).read_bytes()
    if sha256(data).hexdigest() != file["sha256"]:
        raise SystemExit(f"{file['key']} is damaged")
    for row in pq.ParquetFile(pa.BufferReader(data)).read(use_threads=False).to_pylist():
        deleted = row.pop("_deleted", False)
        rank = (row["row_version"], file["tier"] == "closed", deleted)
        key = row["run_id"]
        if key not in rows or rank >= rows[key][0]:
            rows[key] = rank, None if deleted else row

for _, row in rows.values():
    if row is not None:
        print(row["run_id"], row["state"], f"as of entry {manifest['applied_seq']}")
