"""What requested the runs of an asset."""

from servo.core.events.runs import SourceRef
from servo.core.explain.records import Records, Subject


def sources_of(records: Records, subject: Subject) -> list[SourceRef]:
    """The sources of the newest runs of an asset, without duplicates."""
    names = dict.fromkeys(row.run_id for row in records.tasks_of(Subject(subject.asset_key)))
    runs = [records.run(name) for name in names]
    return [run.source for run in runs if run is not None]
