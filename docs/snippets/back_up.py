"""Copy a workspace that is in use, in the order that makes the copy complete."""

import shutil
from pathlib import Path

# A manifest refers to files and entries that exist. An entry leaves the ledger only after it is in
# the archive, and refers to plans and outputs that were stored before it. So each copied folder
# contains everything that the folders copied before it refer to.
ORDER = ("manifests", "state", "ledger", "ledger-archive", "plans", "inbox", "assets", "logs")

source, target = Path(".servo/default/default"), Path("backup/default/default")
for folder in ORDER:
    for path in sorted((source / folder).rglob("*")):
        copy = target / path.relative_to(source)
        if path.is_file() and not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path, copy)
print(sum(path.is_file() for path in target.rglob("*")), "objects")
