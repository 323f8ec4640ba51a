"""Where a workspace is: a store, a tenant and a workspace, in one spelling.

`.servo`, `/home/ada/shop/.servo`, `file:///home/ada/shop/.servo` and a symlink to it are one
folder, so they have one address. Locks, sockets and the registry of this machine are named after
it: two processes that spell a folder differently still find each other.
"""

from hashlib import sha256
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from servo.errors import NotFound
from servo.ledger.paths import Paths

DEFAULT_STORE = ".servo"
DEFAULT_NAME = "default"

_MEMORY = "memory://"


class Address(msgspec.Struct, frozen=True):
    """One workspace in one store; make it with `Address.of`, which finds the one spelling."""

    store: str
    tenant: str = DEFAULT_NAME
    workspace: str = DEFAULT_NAME

    @classmethod
    def of(cls, store: str, tenant: str = DEFAULT_NAME, workspace: str = DEFAULT_NAME) -> "Address":
        """The address of a workspace, however its store is spelled; `Invalid` for bad names."""
        _ = Paths(tenant, workspace)  # refuses names that cannot be part of a path
        return cls(_canonical(store), tenant, workspace)

    @property
    def is_local(self) -> bool:
        """Whether the store is a folder of this machine."""
        return "://" not in self.store

    @property
    def is_in_memory(self) -> bool:
        """Whether the store ends with this process, so that nobody else can lead."""
        return self.store.startswith(_MEMORY)

    @property
    def is_shared(self) -> bool:
        """Whether processes of other machines can reach the store."""
        return not self.is_local and not self.is_in_memory

    @property
    def paths(self) -> Paths:
        """Where in the store everything of the workspace is."""
        return Paths(self.tenant, self.workspace)

    @property
    def digest(self) -> str:
        """A short name for locks and sockets, different for every workspace."""
        text = msgspec.json.encode([self.store, self.tenant, self.workspace])
        return sha256(text).hexdigest()[:20]

    def check_exists(self) -> None:
        """`NotFound` if the store is a folder that does not exist."""
        if self.is_local and not Path(self.store).is_dir():
            raise NotFound(f"there is no store in {self.store}", remedy=self._where_to_look())

    def _where_to_look(self) -> str:
        folder = Path(self.store)
        usual = folder.name == DEFAULT_STORE
        above = [parent / DEFAULT_STORE for parent in folder.parent.parents if usual]
        if found := next((store for store in above if store.is_dir()), None):
            return (
                f"{found} is one: run the command in {found.parent}, or run `servo init` there to "
                "add a project file, which makes commands work in its subfolders"
            )
        return (
            "materialize an asset to create it, or use another store: --store, "
            "store=... in Python, or $SERVO_STORE"
        )

    def __str__(self) -> str:
        names = (self.tenant, self.workspace)
        if names == (DEFAULT_NAME, DEFAULT_NAME):
            return self.store
        return f"{self.store} ({self.tenant}/{self.workspace})"


IN_MEMORY = Address(_MEMORY)
"""A workspace of this process alone; whoever opens one has a store of their own."""


def _canonical(store: str) -> str:
    """The one spelling of a store; what cannot be read is left for the store itself to refuse."""
    if "://" not in store:
        return _folder(store)
    parts = urlsplit(store)
    if parts.scheme == "file" and parts.netloc in {"", "localhost"} and not parts.query:
        return _folder(unquote(parts.path))
    options = urlencode(sorted(parse_qsl(parts.query, keep_blank_values=True)))
    path = parts.path.rstrip("/")
    return f"{parts.scheme.lower()}://{parts.netloc}{path}{'?' + options if options else ''}"


def _folder(text: str) -> str:
    if not text or "\0" in text or text.partition("/")[0].endswith(":"):
        return text  # no folder: opening the store says what is wrong
    return str(Path(text).expanduser().resolve())
