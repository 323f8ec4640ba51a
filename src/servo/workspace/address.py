"""Where a workspace is: a store, a tenant and a workspace, in one spelling.

`.servo`, `/home/ada/shop/.servo`, `file:///home/ada/shop/.servo` and a symlink to it are one
folder, so they have one address. Locks, sockets and the registry of this machine are named after
it: two processes that spell a folder differently still find each other. The address of a bucket
includes its server, also if the environment names it: see `servo.workspace.bucket_url`.
"""

import errno
import os
from hashlib import sha256
from pathlib import Path

import msgspec

from servo.errors import Invalid, NotFound, Unavailable
from servo.ledger.paths import Paths
from servo.ports.store_url import folder_of_path, folder_of_url, is_url, split_url
from servo.workspace.bucket_url import canonical_bucket
from servo.workspace.typed_paths import is_folder

DEFAULT_STORE = ".servo"
DEFAULT_NAME = "default"

_MEMORY = "memory://"
_NO_FOLDER = (errno.ENAMETOOLONG, errno.ELOOP)


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
        if self.is_local and not _is_folder(self.store):
            raise NotFound(f"there is no store in {self.store}", remedy=self._where_to_look())

    def _where_to_look(self) -> str:
        folder = Path(self.store)
        usual = folder.name == DEFAULT_STORE
        above = [parent / DEFAULT_STORE for parent in folder.parent.parents if usual]
        if found := next((store for store in above if is_folder(store)), None):
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


def store_in(folder: Path, store: str) -> str:
    """A store as written by somebody in `folder`: a relative path begins there."""
    return store if is_url(store) else str(folder / folder_of_path(store))


def _is_folder(path: str) -> bool:
    try:
        return Path(path).is_dir()
    except OSError as error:
        raise Unavailable(
            f"the store in {path} cannot be read: {error.strerror}",
            remedy="make it readable for this user",
            may_have_applied=False,
        ) from None


def _canonical(store: str) -> str:
    """The one spelling of a store; `Invalid` if it can be none."""
    if not is_url(store):
        return _resolved(folder_of_path(store))
    parts = split_url(store)
    if parts.scheme == "file":
        return _resolved(folder_of_url(parts))
    if parts.scheme == "s3":
        return canonical_bucket(parts, os.environ)
    path = parts.path.rstrip("/")
    return f"{parts.scheme}://{parts.netloc}{path}{'?' + parts.query if parts.query else ''}"


def _resolved(folder: Path) -> str:
    path = os.path.realpath(folder)
    try:
        _ = path.encode()  # the path is sent and stored as JSON
        _ = os.stat(path)  # noqa: PTH116 - an error tells what no path can be
    except UnicodeEncodeError:
        raise Invalid(
            f"the path of the store is not valid UTF-8: {path!r}", remedy="use a folder that is"
        ) from None
    except OSError as error:
        if error.errno in _NO_FOLDER:
            raise Invalid(
                f"the path of the store is invalid: {error.strerror}", remedy="use another folder"
            ) from None
    return path
