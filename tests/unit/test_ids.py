"""Names, free-text ids, ULIDs and derived ids."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from servo.core.ids import (
    AttemptId,
    RunId,
    RunKey,
    TaskKeyStr,
    TenantId,
    WorkspaceId,
    attempt_id,
    backfill_id,
    check_name,
    check_text,
    jitter_fraction,
    queue_message_name,
    run_id,
    timer_name,
    ulid,
)
from servo.errors import Invalid

SALT = bytes(range(32))
ACME, OTHER = TenantId("acme"), TenantId("other")
PROD, DEV = WorkspaceId("prod"), WorkspaceId("dev")
RUN, TASK = RunId("run_x"), TaskKeyStr("raw/events:materialize")

# Spellings of a way out of a folder, and strings that look like other strings.
HOSTILE = [
    "",
    "..",
    ".",
    "../other",
    "a/../b",
    "a/..",
    "./a",
    "%2e%2e/other",
    "%2E%2E",
    "%252e%252e",
    "%25252E",
    "a\\b",
    "..\\other",
    "a\x00b",
    "a\nb",
    "a\tb",
    "a\x7fb",
    "a\x85b",
    "a\u2028b",
    "gpj.\u202eexe",
    "a\u200fb",
    "a\u2066b",
    "\ufeffa",
    "a\ud800b",
    "cafe\u0301",
]


@pytest.mark.parametrize("name", ["a", "0", "acme", "acme-prod_2", "a" * 63, "9lives"])
def test_an_ordinary_name_is_accepted_as_it_is(name: str) -> None:
    assert check_name(name, "tenant") == name


@pytest.mark.parametrize(
    "name", [*HOSTILE, "Acme", "_a", "-a", "a b", "a.b", "a/b", "a:b", "é", "a" * 64, "a\n", "a٣"]
)
def test_anything_else_cannot_be_a_name(name: str) -> None:
    with pytest.raises(Invalid, match=r"tenant .* is not a valid name; use 1 to 63"):
        check_name(name, "tenant")


def test_a_refusal_does_not_repeat_a_long_name() -> None:
    with pytest.raises(Invalid) as caught:
        check_name("A" * 100_000, "tenant")
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    "text",
    [
        "a",
        "sched:daily:1736899200",
        "s3://bucket/a%2Fb.csv",
        "naïve ключ 🎉",
        "...",
        "a..b",
        ".x/y.",
        "\ufb01le \u2460",
    ],
)
def test_free_text_may_be_any_unicode_with_colons_and_slashes(text: str) -> None:
    assert check_text(text, "run key") == text


@pytest.mark.parametrize("text", HOSTILE)
def test_free_text_that_could_escape_or_deceive_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match=r"run key .*; "):
        check_text(text, "run key")


def test_free_text_is_limited_in_bytes_not_in_characters() -> None:
    assert check_text("é" * 5, "run key", 10) == "é" * 5
    with pytest.raises(Invalid, match="longer than 10 bytes"):
        check_text("é" * 5 + "a", "run key", 10)


def test_a_ulid_holds_the_milliseconds_in_its_first_ten_characters() -> None:
    instant = datetime(2025, 1, 15, 8, 30, 0, 123_999, tzinfo=UTC)
    first = ulid(instant, bytes(10))
    assert first == "01JHMHAVXV" + "0" * 16
    assert ulid(instant + timedelta(milliseconds=1), bytes(10)) > ulid(instant, b"\xff" * 10)


def test_a_ulid_is_the_same_whatever_zone_the_instant_is_written_in() -> None:
    instant = datetime(2025, 1, 15, tzinfo=UTC)
    elsewhere = instant.astimezone(timezone(timedelta(hours=9)))
    assert ulid(elsewhere, bytes(10)) == ulid(instant, bytes(10))


@pytest.mark.parametrize(
    ("instant", "entropy"),
    [
        (datetime(2025, 1, 15), bytes(10)),  # noqa: DTZ001 - the naive datetime is the point
        (datetime(2025, 1, 15, tzinfo=UTC), bytes(9)),
        (datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), bytes(10)),
    ],
)
def test_a_ulid_needs_an_instant_since_1970_and_ten_bytes(
    instant: datetime, entropy: bytes
) -> None:
    with pytest.raises(Invalid):
        ulid(instant, entropy)


def test_a_run_has_one_id_per_salt_tenant_workspace_and_key() -> None:
    key = RunKey("daily")
    made = [
        run_id(SALT, ACME, PROD, key),
        run_id(SALT[::-1], ACME, PROD, key),
        run_id(SALT, OTHER, PROD, key),
        run_id(SALT, ACME, DEV, key),
        run_id(SALT, ACME, PROD, RunKey("daily:2")),
    ]
    assert len({*made}) == len(made)
    assert all(len(value) == 30 and value.startswith("run_") for value in made)
    assert made[0] == run_id(SALT, ACME, PROD, key)


@pytest.mark.parametrize(
    ("salt", "tenant", "workspace", "key"),
    [
        (bytes(15), "acme", "prod", "daily"),
        (SALT, "acme:prod", "x", "daily"),
        (SALT, "acme", "prod:x", "daily"),
        (SALT, "acme", "prod", ""),
        (SALT, "acme", "prod", "a\x00"),
    ],
)
def test_a_run_id_is_not_made_of_what_could_be_read_in_two_ways(
    salt: bytes, tenant: str, workspace: str, key: str
) -> None:
    with pytest.raises(Invalid):
        run_id(salt, TenantId(tenant), WorkspaceId(workspace), RunKey(key))


def test_each_part_of_an_attempt_changes_its_id() -> None:
    made = [
        attempt_id(RUN, TASK, 1),
        attempt_id(RUN, TASK, 2),
        attempt_id(RUN, TASK, 1, 7),
        attempt_id(RUN, TASK, 1, 8),
        attempt_id(RUN, TaskKeyStr("raw/events:check"), 1),
        attempt_id(RunId("run_y"), TASK, 1),
    ]
    assert len({*made}) == len(made)
    assert all(len(value) == 36 and value.startswith("att_") for value in made)


def test_each_delivery_has_its_own_name_in_each_tenant_and_workspace() -> None:
    attempt = AttemptId("att_x")
    made = [
        queue_message_name(ACME, PROD, attempt, 1),
        queue_message_name(ACME, PROD, attempt, 2),
        queue_message_name(OTHER, PROD, attempt, 1),
        queue_message_name(ACME, DEV, attempt, 1),
        queue_message_name(ACME, PROD, AttemptId("att_y"), 1),
    ]
    assert len({*made}) == len(made)
    assert all(len(value) == 28 and value.startswith("d_") for value in made)


def test_tenants_with_the_same_timer_do_not_share_its_name() -> None:
    made = [
        timer_name(ACME, PROD, "cron", "daily"),
        timer_name(OTHER, PROD, "cron", "daily"),
        timer_name(ACME, DEV, "cron", "daily"),
        timer_name(ACME, PROD, "retry", "daily"),
        timer_name(ACME, PROD, "cron", "daily", 1),
    ]
    assert len({*made}) == len(made)
    assert all(len(value) == 28 and value.startswith("t_") for value in made)


def test_a_backfill_is_identified_by_the_clients_request() -> None:
    made = [
        backfill_id(ACME, PROD, "request"),
        backfill_id(OTHER, PROD, "request"),
        backfill_id(ACME, PROD, "request 2"),
    ]
    assert len({*made}) == len(made)
    assert all(len(value) == 29 and value.startswith("bf_") for value in made)
    with pytest.raises(Invalid, match="client request id"):
        backfill_id(ACME, PROD, "")


def test_jitter_is_spread_over_the_whole_range() -> None:
    found = [jitter_fraction(RUN, TASK, attempt) for attempt in range(1, 2001)]
    counts = [sum(low <= value < low + 2000 for value in found) for low in range(0, 10_000, 2000)]
    assert sum(counts) == 2000
    assert min(counts) > 300
