"""Which asset, partition or task a user means.

`ASSET[PARTITION]` is how summaries show a partition; no asset key contains a bracket.
`ASSET:PARTITION` is read from the left: an asset key contains no colon unless it was reported from
outside, so the known keys decide, and the rest is the partition. A partition is named by its
canonical text, by its plain value, or by its values joined with `|`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice

from servo.core.explain.words import listed, partition
from servo.core.partitions import PartitionKey, ValueType
from servo.errors import Conflict, Invalid, NotFound

SAMPLE = 1_000
SHOWN = 3


def split_subject(keys: Collection[str], text: str) -> tuple[str, str | None]:
    """Split `ASSET:PARTITION` or `ASSET[PARTITION]` into the asset and the partition."""
    if _is_known(keys, text):
        return text, None
    asset, bracket, rest = text.partition("[")
    if bracket and rest.endswith("]") and ":" not in asset:
        return asset, rest[:-1]
    if ":" not in text:
        return text, None
    places = [place for place, letter in enumerate(text) if letter == ":"]
    known = [place for place in places if _is_known(keys, text[:place])]
    place = known[0] if known else places[0]
    return text[:place], text[place + 1 :]


def _is_known(keys: Collection[str], text: str) -> bool:
    return text in keys or text.replace(".", "/") in keys


def find_partition(known: Collection[str], asset_key: str, text: str) -> str:
    """The partition of an asset that `text` names, which may be unknown."""
    if text in known:
        return text
    readings = dict.fromkeys(_readings(known, text))
    found = [key for key in readings if key in known] or list(readings)
    if len(found) == 1:
        return found[0]
    if found:
        raise Conflict(
            f"{text!r} matches {len(found)} partitions of {asset_key}: {listed(found)}",
            remedy="name one of them in full",
        )
    if not known:
        raise NotFound(
            f"no partition of {asset_key} is recorded yet",
            remedy=f"run `servo partitions list {asset_key}` to see its partitions",
        )
    some = listed([partition(key) for key in islice(sorted(known), SHOWN)])
    told = f"{asset_key} has no partition {text!r}"
    raise NotFound(told, remedy=f"its partitions look like {some}")


def _readings(known: Iterable[str], text: str) -> Iterator[str]:
    """What `text` can stand for, given the dimensions of the known partitions."""
    shapes: dict[tuple[tuple[str, ValueType], ...], None] = {}
    for key in islice(known, SAMPLE):
        try:
            shapes[tuple(PartitionKey.parse(key).dimensions().items())] = None
        except Invalid:
            continue  # not in canonical form: only its exact text matches it
    for shape in shapes:
        for spelled in _spellings(text, dict(shape)):
            try:
                yield PartitionKey.from_display(spelled, dict(shape)).canonical()
            except Invalid:
                continue
    try:
        yield PartitionKey.parse(text).canonical()
    except Invalid:
        return


def _spellings(text: str, dimensions: Mapping[str, ValueType]) -> Iterator[str]:
    yield text
    parts = text.split("|")
    if len(parts) == len(dimensions) > 1:
        names = sorted(dimensions)
        yield ",".join(f"{name}={part}" for name, part in zip(names, parts, strict=True))
