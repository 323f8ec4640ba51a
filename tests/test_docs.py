"""The documentation is true and complete, and every check of it is known to find faults.

`docs/build.py` holds the checks: everything that exists is documented, everything documented
exists, links lead somewhere, snippets run, the site builds. A check that nobody has seen fail may
not be looking, so each one also runs on a copy of the documents with falsehoods planted in it.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]


class Lie(NamedTuple):
    """A falsehood: what is put in the place of what, and what the check must say to it."""

    file: str
    truth: str
    lie: str
    answer: str


EVENTS = "docs/reference/events.md"
TABLES = "docs/reference/tables.md"
LEDGER = "docs/reference/ledger.md"
MANIFEST = "docs/reference/manifest.md"
LAYOUT = "docs/reference/layout.md"
SCHEMA = "docs/reference/schema.json"
CLI = "docs/reference/cli.md"
ERRORS = "docs/reference/errors.md"
SETTINGS = "docs/reference/settings.md"
LAWS = "docs/reference/laws.md"
RUN = "docs/how-to/run.md"
API = "docs/reference/python/assets.md"
DEVELOPMENT = "docs/development.md"
INDEX = "docs/adr/README.md"
CONCEPTS = "docs/explanation/concepts.md"
RECIPES = "docs/how-to/sql.md"
CONTENTS = "docs/README.md"
JSON_RECORD = "docs/adr/0013-one-canonical-json-without-floats.md"
BATCH_RECORD = "docs/adr/0017-batches-are-the-unit-of-atomicity.md"

LIES: dict[str, list[Lie]] = {
    "events": [
        Lie(EVENTS, "### RunAdmitted", "### RunLetIn", "does not describe RunAdmitted"),
        Lie(EVENTS, "### RunAdmitted", "### RunLetIn", "describes RunLetIn, which does not exist"),
        Lie(EVENTS, "| `cursor_after` |", "| `cursor_then` |", "does not describe cursor_after"),
        Lie(EVENTS, "| `cursor_after` |", "| `cursor_then` |", "describes cursor_then, which"),
        Lie(EVENTS, "| `approved` | boolean |", "| `approved` | string |", "approved is 'boolean"),
        Lie(EVENTS, "integer | `86400000` |", "integer | `3600000` |", "is 'integer, 86400000'"),
        Lie(EVENTS, "Kind: command.", "Kind: fact.", "QuotaSet is not called the kind it is"),
        Lie(EVENTS, "| `INTERRUPTED` |", "| `DISTURBED` |", "does not describe INTERRUPTED"),
        Lie(EVENTS, "### Handover", "### Handshake", "does not describe Handover"),
    ],
    "refusals": [Lie(EVENTS, "tick_passed", "tick_missed", "the refusal 'tick_passed'")],
    "tables": [
        Lie(TABLES, "### dead_letter", "### dead_mail", "does not describe dead_letter"),
        Lie(TABLES, "### dead_letter", "### dead_mail", "describes dead_mail, which does not"),
        Lie(TABLES, "| `low_water` |", "| `high_water` |", "does not describe low_water"),
        Lie(TABLES, "| `low_water` |", "| `high_water` |", "describes high_water, which"),
        Lie(TABLES, "| `retry` | json? |", "| `retry` | map |", "retry is 'json?'"),
        Lie(TABLES, "`seq`, `batch_index`.", "`seq`.", "ledger_index has the key `seq`, `batch"),
        Lie(TABLES, "| `row_version` |", "| `version` |", "does not describe row_version"),
        Lie(TABLES, "| `RETRY_WAIT` |", "| `WAIT` |", "does not describe RETRY_WAIT"),
        Lie(RECIPES, "| `quotas` |", "| `limits` |", "The tables does not describe quotas"),
        Lie(RECIPES, "| `quotas` |", "| `limits` |", "describes limits, which does not exist"),
    ],
    "objects": [
        Lie(LEDGER, "| `stall` |", "| `stalled` |", "does not describe stall"),
        Lie(LEDGER, "| `parked` |", "| `waiting` |", "does not describe parked"),
        Lie(MANIFEST, "| `min_seq` | integer |", "| `min_seq` | string |", "min_seq is 'integer"),
    ],
    "schema": [
        Lie(SCHEMA, '"title": "TaskFinished"', '"title": "TaskEnded"', "is not what the code says"),
        Lie(EVENTS, "| `cursor_after` |", "| `cursor_then` |", "cursor_after is null in"),
        Lie(TABLES, "| `run_key` |", "| `run_name` |", "run_key is string in"),
        Lie(TABLES, "| `backfills.state_version` | 1 |", "", "backfills.state_version is 1 in"),
        Lie(LAYOUT, "leases/orchestration.json", "lease.json", "lease lies under leases/"),
    ],
    "settings": [
        Lie(SETTINGS, "| `gc_every` |", "| `gc_often` |", "not describe gc_every"),
        Lie(SETTINGS, "| 250 ms |", "| 1 s |", "publish_every is '250 ms'"),
        Lie(SETTINGS, "| `isolate` |", "| `alone` |", "does not describe isolate"),
    ],
    "bugs": [
        Lie(DEVELOPMENT, "| `no_claim` |", "| `claimless` |", "does not describe no_claim"),
        Lie(DEVELOPMENT, "every claim is granted", "no claim is", "everyone_granted is 'every"),
    ],
    "verbs": [
        Lie(DEVELOPMENT, "| `make types` |", "| `make kinds` |", "does not describe types"),
        Lie(DEVELOPMENT, "| `make types` |", "| `make kinds` |", "describes kinds, which"),
    ],
    "commands": [
        Lie(CLI, "## servo admin gc", "## servo admin tidy", "build.py --write"),
    ],
    "python": [
        Lie(API, "::: servo.Retention\n", "::: servo.Attention\n", "describe servo.Retention"),
        Lie(API, "::: servo.Retention\n", "::: servo.Attention\n", "servo.Attention, which is not"),
        Lie(API, "::: servo.AssetKey\n", "::: servo.asset\n", "describes servo.asset 2 times"),
    ],
    "exit_codes": [Lie(ERRORS, "| 7 | `Corrupt` |", "| 8 | `Corrupt` |", "'Corrupt': '7'")],
    "command_lines": [
        Lie(RUN, "servo run list", "servo walk list", "is not a command"),
        Lie("README.md", "servo admin gc --dry-run", "servo admin gc --dry", "no option --dry"),
        Lie(DEVELOPMENT, "make sim SEEDS=0:200", "make simulation", "no verb 'simulation'"),
    ],
    "names": [
        Lie(CONCEPTS, "# Concepts\n", "# Concepts\n\n`NoSuchClass`\n", "no class NoSuchClass"),
        Lie(CONCEPTS, "# Concepts\n", "# Concepts\n\n`runs.colour`\n", "no column runs.colour"),
        Lie(CONCEPTS, "# Concepts\n", "# Concepts\n\n`no_such_name`\n", "called no_such_name"),
        Lie(CONCEPTS, "# Concepts\n", "# Concepts\n\n`Oracle.guess`\n", "there is no Oracle.guess"),
        Lie(LAWS, "::test_inv_04_an", "::test_inv_4_an", "there is no test tests"),
    ],
    "links": [
        Lie(INDEX, "(0002-order", "(0002-disorder", "leads nowhere"),
        Lie(
            CONCEPTS, "(../reference/laws.md)", "(../reference/laws.md#physics)", "names no heading"
        ),
        Lie(CONTENTS, "(how-to/sql.md)", "(how-to/io.md)", "does not list docs/how-to/sql.md"),
    ],
    "decisions": [
        Lie(INDEX, "| 7 | ", "| 77 | ", "decision 7 is Accepted"),
        Lie(INDEX, "(0003-", "(9003-", "does not list 0003-"),
        Lie(INDEX, "(0003-", "(9003-", "which does not exist"),
        Lie(JSON_RECORD, "## Context", "## Why", "has not"),
        Lie(BATCH_RECORD, "Accepted.", "Liked.", "none of"),
    ],
    "sql": [
        Lie(TABLES, "from runs group by", "from walks group by", "walks does not exist"),
        Lie(RECIPES, "where cancel_requested_at is not", "where run_id is", "finds nothing"),
    ],
    "stored": [
        Lie(LEDGER, '"nonce":"nonce-1"', '"nonce":"nonce-9"', "bytes do not match their hash"),
        Lie(MANIFEST, "<!-- example: manifest -->", "", "does not say what it is an example of"),
    ],
    "shown": [
        Lie(
            "docs/snippets/derive_ids.py", "salt = bytes(32)", "salt = b''", "differs from its file"
        ),
        Lie(CONCEPTS, "<!-- snippet: ask_with_sql.py -->", "", "is not a snippet (unmarked)"),
        Lie(CONCEPTS, "<!-- snippet: ask_with_sql.py -->", "", "ask_with_sql.py is shown nowhere"),
    ],
    "snippets": [
        Lie("docs/snippets/first_run.py", "TENANT, WORK", "raise OSError; TENANT, WORK", "fails"),
    ],
    "site": [
        Lie("mkdocs.yml", "      - how-to/sql.md\n", "", 'not included in the "nav"'),
        Lie(
            CONCEPTS,
            "(../reference/laws.md)",
            "(../reference/laws.md#physics)",
            "anchor '#physics'",
        ),
    ],
}


def build(root: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "docs" / "build.py"), "--root", str(root), *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    for name in ("README.md", "mkdocs.yml", "CONTRIBUTING.md", "CHANGELOG.md"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=ignored)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("check", LIES)
def test_what_the_documentation_says_is_so(check: str) -> None:
    done = build(ROOT, "--only", check)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("check", LIES)
def test_a_falsehood_in_the_documentation_is_found(check: str, copy: Path) -> None:
    for lie in dict.fromkeys((lie.file, lie.truth, lie.lie) for lie in LIES[check]):
        plant(copy, *lie)
    if check == "snippets":
        for path in (copy / "docs" / "snippets").iterdir():
            if path.name != "first_run.py":
                path.unlink()
    done = build(copy, "--only", check)
    assert done.returncode == 1, done.stdout + done.stderr
    assert [lie.answer for lie in LIES[check] if lie.answer not in done.stdout] == []


def plant(root: Path, file: str, truth: str, lie: str) -> None:
    path = root / file
    text = path.read_text()
    assert truth in text, f"{file} does not say {truth!r}"
    path.write_text(text.replace(truth, lie))


def test_every_check_is_made_here_and_has_a_planted_falsehood() -> None:
    done = build(ROOT, "--list")
    assert done.stdout.split() == list(LIES)


def test_the_schema_of_the_storage_format_is_that_of_the_code() -> None:
    done = build(ROOT, "--only", "schema")
    assert done.returncode == 0, done.stdout + done.stderr
