"""Lead again after a projection file was damaged. Every leader and reader is stopped."""

from pathlib import Path

from servo.ledger.paths import Paths
from servo.projection.manifest_store import ManifestStore
from servo.projection.rebuild import newest_intact
from servo.runtime.deployment import open_service
from servo.runtime.system import SystemClock
from servo.storage.from_url import store_from_url

store, paths = store_from_url(".servo", clock=SystemClock()), Paths("default", "default")
aside = Path("aside")
aside.mkdir()

good = newest_intact(store, paths)
assert good.v, "no version is intact; restore from a backup"
for v in ManifestStore(store, paths).versions():
    if v > good.v:
        key = paths.manifest(v)
        (aside / Path(key).name).write_bytes(store.get(key).data)
        store.delete(key)
        print(f"version {v} is set aside")

with open_service(".servo"):
    print(f"leads from version {good.v}: the ledger behind it is replayed and published")
