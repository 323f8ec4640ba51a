"""The options that select the partitions of a backfill and control its runs."""

from typing import Any

import click

from servo.cli.commands.materialize import read_tags
from servo.cli.options.project import default_tags
from servo.cli.options.workspace import Command
from servo.core.ids import check_text
from servo.errors import Invalid
from servo.host.location_code import LocationCode
from servo.operations.backfill_requests import (
    DEFAULT_CONCURRENT_RUNS,
    Asked,
    Choice,
    Which,
)
from servo.workspace.composition import system_entropy

MOST_DIGITS = 18

request_id_option = click.option(
    "--request-id", help="Idempotency key: repeating a request creates nothing new."
)


def with_partition_choice(command: Command) -> Command:
    """Give a command the options that select partitions and control runs."""
    options = (
        click.option("--from", "start", metavar="KEY", help="First partition of a range."),
        click.option("--to", "end", metavar="KEY", help="Last partition of a range."),
        click.option(
            "--partition", "keys", multiple=True, metavar="KEY", help="A partition; repeatable."
        ),
        click.option("--all", "which", flag_value="all", help="All partitions."),
        click.option(
            "--missing",
            "which",
            flag_value="missing",
            help="Partitions that were never materialized.",
        ),
        click.option(
            "--failed", "which", flag_value="failed", help="Partitions whose last run failed."
        ),
        click.option(
            "--stale", "which", flag_value="stale", help="Partitions that are stale or missing."
        ),
        click.option("--chunk-size", type=int, help="Partitions per run. Default: 10."),
        click.option(
            "--concurrency",
            type=int,
            default=DEFAULT_CONCURRENT_RUNS,
            show_default=True,
            help="Runs at the same time.",
        ),
        click.option("--priority", type=int, default=0, help="Higher priority runs first."),
        click.option("--stop-on-failure", is_flag=True, help="Start no more runs after a failure."),
        click.option(
            "--max-failed",
            metavar="N|N%",
            help="Start no more runs once more partitions than this have failed.",
        ),
        click.option(
            "--tag",
            "tags",
            multiple=True,
            metavar="KEY=VALUE",
            help="Tag the backfill; repeatable.",
        ),
        request_id_option,
    )
    for option in reversed(options):
        command = option(command)
    return command


def asked_for(code: LocationCode, options: dict[str, Any]) -> Asked:
    """The backfill that these options describe."""
    which: Which = options["which"] or ""
    choice = Choice(
        start=options["start"],
        end=options["end"],
        keys=tuple(options["keys"]),
        which=which,
    )
    _check(choice)
    most, percent = max_failed(options["max_failed"])
    return Asked(
        choice=choice,
        request_id=given_or_random(options["request_id"]),
        chunk_size=options["chunk_size"],
        concurrency=options["concurrency"],
        priority=options["priority"],
        stop_on_failure=options["stop_on_failure"],
        max_failed=most,
        max_failed_percent=percent,
        labels=read_tags(options["tags"]),
        default_tags=default_tags(),
        location=code.name,
    )


def _check(choice: Choice) -> None:
    """Refuse what the operation would refuse, in the words of the options."""
    if choice.is_empty:
        raise Invalid(
            "no partitions were selected",
            remedy="select some with --partition, a range with --from and --to, or use --all, "
            "--missing, --failed or --stale",
        )
    if choice.is_ambiguous:
        raise Invalid(
            "--partition cannot be combined with another selection",
            remedy="use --partition, or a range with --from and --to",
        )


def given_or_random(request_id: str | None) -> str:
    """The idempotency key of a request; an empty one is refused, since it may be a mistake."""
    if request_id is None:
        return system_entropy().token_bytes(12).hex()
    return check_text(request_id, "request id")


def max_failed(text: str | None) -> tuple[int | None, int | None]:
    """How many partitions may fail, and how many percent of all."""
    if text is None:
        return None, None
    written = text.strip().removesuffix("%")
    if not written.isdecimal() or len(written) > MOST_DIGITS:
        raise Invalid(
            f"invalid --max-failed: {text!r}",
            remedy="use a number such as 3, or a percentage such as 5%",
        )
    return (None, int(written)) if text.strip().endswith("%") else (int(written), None)
