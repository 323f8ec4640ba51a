"""Where everything of one workspace lies in the store.

The layout is public: other programs read it. Numbers are written with twenty digits, so that the
order of keys is the order of numbers; nothing else in a key means anything, and only `seq_of` and
`version_of` read one. Names are checked here once more, because a path is where an unchecked name
would do its damage.
"""

import re
from urllib.parse import quote, unquote

import msgspec

from servo.core.ids import check_name, check_text
from servo.core.keys import AssetKey
from servo.errors import Invalid

DOMAIN = "orchestration"
MARKER = "_commit.json"
"""The file that makes an output count."""
DATA = "data."
"""How the names of an output's other files begin."""

_NUMBERED = re.compile(r"(?:^|/)([0-9]{20})\.json$")
_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}")


class Paths(msgspec.Struct, frozen=True):
    """Every key of one workspace, relative to the root of the store."""

    tenant: str
    workspace: str

    def __post_init__(self) -> None:
        _ = check_name(self.tenant, "tenant")
        _ = check_name(self.workspace, "workspace")

    @property
    def root(self) -> str:
        return f"{self.tenant}/{self.workspace}/"

    @property
    def ledger_prefix(self) -> str:
        return f"{self.root}ledger/{DOMAIN}/"

    def ledger_entry(self, seq: int) -> str:
        return f"{self.ledger_prefix}{_digits(seq)}.json"

    @property
    def archive_prefix(self) -> str:
        return f"{self.root}ledger-archive/{DOMAIN}/"

    def archive_segment(self, first: int, last: int) -> str:
        return f"{self.archive_prefix}{_digits(first)}-{_digits(last)}.ndjson.zst"

    @property
    def inbox_prefix(self) -> str:
        return f"{self.root}inbox/{DOMAIN}/"

    def inbox_item(self, ulid: str) -> str:
        return f"{self.inbox_prefix}{_file(ulid)}.json"

    @property
    def dead_letters_prefix(self) -> str:
        return f"{self.root}dead-letters/{DOMAIN}/"

    def dead_letter(self, digest: str) -> str:
        """What was refused and is too large for an entry, under the hash of its bytes."""
        return f"{self.dead_letters_prefix}{_file(digest)}"

    @property
    def manifest_prefix(self) -> str:
        return f"{self.root}manifests/{DOMAIN}/"

    def manifest(self, v: int) -> str:
        return f"{self.manifest_prefix}{_digits(v)}.json"

    @property
    def manifest_hint(self) -> str:
        return f"{self.root}manifests/{DOMAIN}.manifest.json"

    @property
    def state_prefix(self) -> str:
        return f"{self.root}state/{DOMAIN}/"

    def state_file(self, table: str, name: str) -> str:
        return f"{self.state_prefix}{_file(table)}/{_file(name)}"

    @property
    def plans_prefix(self) -> str:
        return f"{self.root}plans/"

    def plan(self, digest: str) -> str:
        return f"{self.plans_prefix}{_file(digest)}"

    def logs_of(self, run_id: str) -> str:
        """The folder of what a run's executions printed."""
        return f"{self.root}logs/{_quoted(run_id)}/"

    def log(self, run_id: str, task_key: str, attempt: int, exec_id: str) -> str:
        """What one execution printed."""
        return f"{self.logs_of(run_id)}{_quoted(task_key)}/{attempt:04d}/{_file(exec_id)}.txt"

    def output(self, asset_key: str, exec_id: str, part: int = 0) -> str:
        """The folder of what one execution stored for an asset, or for one of its partitions."""
        parts = AssetKey.parse(asset_key).parts
        name = f"{_file(exec_id)}{_PART}{part}" if part else _file(exec_id)
        return f"{self.root}assets/{'/'.join(parts)}/{name}/"

    def is_output(self, folder: str, asset_key: str, exec_id: str) -> bool:
        """Whether one execution stored what is in a folder, for this asset."""
        whole = self.output(asset_key, exec_id)
        return folder == whole or folder.startswith(f"{whole.removesuffix('/')}{_PART}")

    def output_of(self, key: str) -> str | None:
        """The folder of the output that an object belongs to; None if it belongs to none."""
        folder, _, name = key.rpartition("/")
        ours = folder.startswith(self.assets_prefix)
        return f"{folder}/" if ours and (name == MARKER or name.startswith(DATA)) else None

    @property
    def lease(self) -> str:
        return f"{self.root}leases/{DOMAIN}.json"

    @property
    def pins_prefix(self) -> str:
        return f"{self.root}pins/{DOMAIN}/"

    def pin(self, name: str) -> str:
        return f"{self.pins_prefix}{_file(name)}.json"

    @property
    def assets_prefix(self) -> str:
        return f"{self.root}assets/"


_PART = "+"
"""What follows an execution's id where it stored several partitions; no id has it."""


def execution_of(folder: str) -> str:
    """The execution that wrote the output in this folder."""
    return folder.rstrip("/").rpartition("/")[2].partition(_PART)[0]


def seq_of(key: str) -> int:
    """The sequence number of a ledger entry's key; `Invalid` if it is no such key."""
    return _number_in(key, "a ledger entry")


def version_of(key: str) -> int:
    """The version of a manifest's key; `Invalid` if it is no such key."""
    return _number_in(key, "a manifest")


def _digits(number: int) -> str:
    if not 0 <= number < 10**20:
        raise Invalid(f"{number} is not a valid number in a key", remedy="use 0 to 10^20 - 1")
    return f"{number:020d}"


def _file(name: str) -> str:
    if not _FILE_NAME.fullmatch(name):
        raise Invalid(
            f"{name[:80]!r} cannot be a part of a key",
            remedy="use letters, digits, '.', '_' and '-', beginning with a letter or digit",
        )
    return name


def _number_in(key: str, what: str) -> int:
    found = _NUMBERED.search(key)
    if found is None:
        raise Invalid(
            f"{key[:200]!r} is not the key of {what}",
            remedy="remove files that do not belong in this folder",
        )
    return int(found.group(1))


def unquoted(part: str) -> str:
    """The id that a part of a key stands for."""
    return unquote(part.replace("~", "%"))


def _quoted(text: str) -> str:
    """Any id as one part of a key."""
    return quote(check_text(text, "id"), safe=":[]=,@+ ").replace("%", "~")
