"""A leader of an asset with a million partitions uses no more memory or time than with few.

Run as a program with a folder and the number of partitions in it, this leads the workspace, marks
one of them and publishes, and reports the memory it used.
"""

import subprocess
import sys
from pathlib import Path

from benchmarks.history import PARTITIONED, partition_key
from benchmarks.leader import PATHS, ByHand, ports, service
from benchmarks.measure import Result, Samples, growth, in_turn
from benchmarks.scratch import Scratch
from benchmarks.starting import memory_result, resident_kib
from servo.core.events.assets import AssetReported, AssetWiped
from servo.core.events.envelope import Batch
from servo.leader.takeover import take_over
from servo.storage.local import LocalStore

STEP = 7_919


def many_partitions(scratch: Scratch, *, quick: bool) -> list[Result]:
    """Against a workspace that has none: start, memory, marking a partition, wiping them all."""
    count = 2_000 if quick else 1_000_000
    rounds = 3 if quick else 40
    return [
        _start(scratch, count, rounds),
        _memory(scratch, count),
        *_marking(scratch, count, rounds),
    ]


def _start(scratch: Scratch, count: int, rounds: int) -> Result:
    empty, full = LocalStore(scratch.history(0)), LocalStore(scratch.history(0, count))
    with ports(empty) as none, ports(full) as many:
        small, large = in_turn(
            [lambda: take_over(none, PATHS), lambda: take_over(many, PATHS)], rounds
        )
    return growth("many_partitions.start", small, large, most=1.5)


def _memory(scratch: Scratch, count: int) -> Result:
    none, held = [_memory_of(scratch.history(0, held), held) for held in (0, count)]
    return memory_result(f"many_partitions.memory.{count}", none, held)


def _memory_of(folder: Path, count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.partitions", str(folder), str(count)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return int(done.stdout) / 1024


def _marking(scratch: Scratch, count: int, rounds: int) -> list[Result]:
    """One partition after the other, spread over all of them: what exists, and what is new."""
    empty, full = LocalStore(scratch.history(0)), LocalStore(scratch.history(0, count))
    far, near, new, fresh, wiped = [Samples() for _ in range(5)]
    with ports(empty) as none, ports(full) as many:
        small, large = ByHand(none), ByHand(many)
        for number in range(rounds):
            place = number * STEP % count
            fresh.time(lambda place=place: small.commit(_made(place)))
            far.time(lambda place=place: large.commit(_made(place)))
            near.time(lambda place=place: large.commit(_made(place + 1)))
            new.time(lambda place=place: large.commit(_made(count + place)))
        for number in range(rounds):
            wipe = Batch(id=f"wipe-{number}", events=(AssetWiped(asset_key=PARTITIONED),))
            wiped.time(lambda wipe=wipe: large.commit(wipe))
    return [
        growth("many_partitions.mark_any", fresh, far, most=20),
        growth("many_partitions.mark_next", fresh, near, most=3),
        growth("many_partitions.mark_new", fresh, new, most=3),
        growth("many_partitions.wipe_all", fresh, wiped, most=3),
    ]


def _made(number: int) -> Batch:
    made = AssetReported(
        asset_key=PARTITIONED,
        partition_key=partition_key(number),
        materialization_id=f"again-{number}",
    )
    return Batch(id=f"made-{number}", events=(made,))


def _lead(folder: Path, count: int) -> None:
    with service(folder) as led:
        assert led.commit(_made(count // 2)).applied
    print(resident_kib())


if __name__ == "__main__":
    _lead(Path(sys.argv[1]), int(sys.argv[2]))
