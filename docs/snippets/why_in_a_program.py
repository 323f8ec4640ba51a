"""The same explanation as `servo why`, from a program."""

from servo.core.explain.assets import why
from servo.core.explain.finding import Finding
from servo.core.explain.records import Records, Subject
from servo.ledger.paths import Paths
from servo.projection.read.lookup import Lookup
from servo.projection.read.reader import Reader
from servo.storage.from_url import store_from_url
from servo.workspace.system import SystemClock


def show(finding: Finding, depth: int = 0) -> None:
    """Print a finding, with its causes below."""
    print("  " * depth, finding.what, finding.subject, finding.text)
    for cause in finding.because:
        show(cause, depth + 1)


clock = SystemClock()
store, paths = store_from_url(".servo", clock=clock), Paths("default", "default")
snapshot = Reader(store, paths).snapshot()
for finding in why(Records(Lookup(snapshot), clock.now()), Subject("marts/report")):
    show(finding)
