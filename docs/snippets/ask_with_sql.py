"""Query the tables from a program, now and as of an earlier ledger entry."""

from servo.ledger.paths import Paths
from servo.projection.read.reader import Reader
from servo.projection.read.sql import query
from servo.projection.read.time_travel import snapshot_at
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock

store, paths = store_from_url(".servo", clock=SystemClock()), Paths("default", "default")
now = Reader(store, paths).snapshot()
print(now.applied_seq, query(now, "select task_key, state from tasks order by task_key").rows)
then = snapshot_at(store, paths, 3)
print(then.applied_seq, query(then, "select task_key, state from tasks order by task_key").rows)
