"""Whether the stored outputs are those that were committed.

Reads everything that the table `materializations` says is kept: data that expired may be gone.
"""

from collections.abc import Callable, Iterator

from servo.errors import Corrupt, NotFound
from servo.execution.outputs.store import OutputStore
from servo.ledger.paths import Paths
from servo.projection.files.arrow import pc
from servo.projection.read.reader import Snapshot

_Progress = Callable[[int, int], None]
_COLUMNS = ("asset_key", "output_uri", "content_hash", "expired_at")


def kept_outputs(snapshot: Snapshot, paths: Paths) -> list[tuple[str, str, str]]:
    """The asset, the place and the content hash of every output that must be there."""
    rows = snapshot.table("materializations", only=_COLUMNS)
    rows = rows.filter(
        pc.and_(
            pc.starts_with(rows["output_uri"], paths.assets_prefix),
            pc.is_null(rows["expired_at"]),
        )
    )
    columns = (rows[name].to_pylist() for name in _COLUMNS[:3])
    return list(dict.fromkeys(zip(*columns, strict=True)))


def check_outputs(
    outputs: OutputStore, kept: list[tuple[str, str, str]], progress: _Progress
) -> Iterator[Corrupt]:
    """What is wrong with stored outputs."""
    for done, (asset_key, uri, content_hash) in enumerate(kept, start=1):
        progress(done, len(kept))
        try:
            outputs.check(uri, content_hash)
        except Corrupt as error:
            yield error
        except NotFound:
            yield Corrupt(
                f"the output {uri} of {asset_key} is not complete: an object of it is missing",
                remedy="materialize the asset again, or restore the object from a backup",
            )
