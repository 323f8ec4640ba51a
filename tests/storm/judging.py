"""What a storm must not have done: lost, doubled or failed anything."""

from collections import Counter
from itertools import pairwise
from typing import Any

from tests.storm.storm import Storm

MOST_BETWEEN = 7
"""Seconds between two ticks of the schedule, at most."""

Rows = list[dict[str, Any]]


def judge(storm: Storm) -> list[str]:
    """The promises that were broken."""
    runs = storm.rows("select run_id, run_key, state from runs")
    fills = storm.rows("select backfill_id, state from backfills")
    return [
        *storm.broken,
        *_lost(storm, runs, fills),
        *_doubled(storm, runs),
        *_failed([*runs, *fills]),
        *_missing_ticks(storm),
        *_damaged(storm),
    ]


def _lost(storm: Storm, runs: Rows, fills: Rows) -> list[str]:
    kept = {row["run_id"] for row in runs} | {row["backfill_id"] for row in fills}
    told = {one for ids in (*storm.runs.values(), *storm.backfills.values()) for one in ids}
    return [f"{name} was acknowledged and is lost" for name in sorted(told - kept)]


def _doubled(storm: Storm, runs: Rows) -> list[str]:
    keys = Counter(row["run_key"] for row in runs)
    answers = {**storm.runs, **storm.backfills}
    made = storm.rows(
        "select run_id, asset_key, partition_key, count(*) as times from materializations "
        "group by all having times > 1"
    )
    return [
        *(f"{count} runs have the key {key}" for key, count in keys.items() if count > 1),
        *(f"{key} was answered with {ids}" for key, ids in answers.items() if len(ids) > 1),
        *(f"materialized more than once: {row}" for row in made),
    ]


def _failed(rows: Rows) -> list[str]:
    return [f"failed, and its code did not: {row}" for row in rows if row["state"] != "SUCCEEDED"]


def _missing_ticks(storm: Storm) -> list[str]:
    rows = storm.rows("select epoch(scheduled_for) as seconds from schedule_ticks order by 1")
    times = [round(row["seconds"]) for row in rows]
    return [
        f"no tick between {one} and {two}"
        for one, two in pairwise(times)
        if two - one > MOST_BETWEEN
    ]


def _damaged(storm: Storm) -> list[str]:
    try:
        _ = storm.servo("admin", "verify")
    except AssertionError as error:
        return [f"verification failed: {error}"]
    return []
