"""The project file: the code locations and settings of a project.

`servo.toml`, or `[tool.servo]` in `pyproject.toml`, in the folder of the command or the nearest
folder above it. Paths in it are relative to it, so commands mean the same from any subfolder.
Unknown keys are refused, with the file, the key and a suggestion: a misspelt `store` would
otherwise silently create a second workspace.
"""

import os
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec

from servo.core.ids import check_name, check_text
from servo.core.retry import RetryRules
from servo.errors import Invalid
from servo.sdk.assets.retries import Backoff, Jitter, RetryPolicy, stored_policy
from servo.workspace.address import Address, store_in
from servo.workspace.code_location import CodeLocation
from servo.workspace.project_toml import (
    PYPROJECT,
    SERVO_TOML,
    TABLE,
    table_of_pyproject,
    table_of_servo_toml,
)
from servo.workspace.typed_paths import is_folder

_Name = Annotated[str, msgspec.Meta(min_length=1)]


class LocationEntry(msgspec.Struct, frozen=True, kw_only=True):
    """A code location as written: a file or a module, with an optional name."""

    name: _Name | None = None
    file: _Name | None = None
    module: _Name | None = None
    folder: _Name = "."
    as_dagster: bool = False


class RetryDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The retry policy of assets that have none; as `RetryPolicy`, with exceptions by name."""

    max_retries: Annotated[int, msgspec.Meta(ge=0)] = 1
    delay: Annotated[float, msgspec.Meta(ge=0)] | None = None
    backoff: Backoff | None = None
    jitter: Jitter | None = None
    max_delay: Annotated[float, msgspec.Meta(ge=0)] | None = None
    retry_on: list[_Name] = []
    no_retry_on: list[_Name] = []


class AssetDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults for the assets of the project."""

    retry_policy: RetryDefaults | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a project file may contain."""

    store: _Name | None = None
    tenant: _Name | None = None
    workspace: _Name | None = None
    workers: Annotated[int, msgspec.Meta(ge=1)] | None = None
    tags: dict[str, str] = {}
    defaults: AssetDefaults = AssetDefaults()
    locations: list[LocationEntry] = []


class ProjectFile(msgspec.Struct, frozen=True, kw_only=True):
    """A project file that was found, with its paths made absolute."""

    path: str
    store: str | None = None
    tenant: str | None = None
    workspace: str | None = None
    workers: int | None = None
    tags: dict[str, str] = {}
    retry: RetryRules | None = None
    locations: tuple[CodeLocation, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder that paths in it are relative to."""
        return Path(self.path).parent

    def named(self, text: str, here: Path) -> CodeLocation | None:
        """The location with this name, file or module, as seen from the folder `here`."""
        path = os.path.realpath(here / text)
        for one in self.locations:
            place = os.path.realpath(Path(one.folder, one.code))
            if text in (one.name, one.code) or path == place:
                return one
        return None


def find_project(start: Path) -> ProjectFile | None:
    """The project file of a folder or of the nearest folder above it; None if there is none."""
    for folder in (start, *start.parents):
        own = table_of_servo_toml(folder / SERVO_TOML)
        shared = table_of_pyproject(folder / PYPROJECT)
        if own is not None and shared is not None:
            raise Invalid(
                f"{folder} has a {SERVO_TOML} and a [{TABLE}] in {PYPROJECT}",
                remedy="keep one of the two",
            )
        if own is not None:
            return read_project(folder / SERVO_TOML, own, "")
        if shared is not None:
            return read_project(folder / PYPROJECT, shared, f"{TABLE}.")
    return None


def has_project(folder: Path) -> bool:
    """Whether this very folder has a project file."""
    own = table_of_servo_toml(folder / SERVO_TOML)
    return own is not None or table_of_pyproject(folder / PYPROJECT) is not None


def read_project(path: Path, table: Mapping[str, Any], prefix: str) -> ProjectFile:
    """The project that a table describes; `prefix` is where in the file its keys are."""
    _refuse_unknown(path, prefix, table, Written)
    for where, inner, kind in _inner_tables(table):
        _refuse_unknown(path, f"{prefix}{where}.", inner, kind)
    try:
        written = msgspec.convert(table, Written)
    except msgspec.ValidationError as error:
        raise _wrong_type(path, prefix, error) from None
    retry = _retry(path, prefix, written.defaults.retry_policy)
    found = (_location(path, prefix, n, one) for n, one in enumerate(written.locations))
    locations = tuple(msgspec.structs.replace(one, retry=retry) for one in found)
    _refuse_namesakes(path, locations)
    return ProjectFile(
        path=str(path),
        store=_store(path, prefix, written.store),
        tenant=_name(path, "tenant", written.tenant),
        workspace=_name(path, "workspace", written.workspace),
        workers=written.workers,
        tags=written.tags,
        retry=retry,
        locations=locations,
    )


def _inner_tables(
    table: Mapping[str, Any],
) -> Iterator[tuple[str, dict[str, Any], type[msgspec.Struct]]]:
    """The tables in a project file with what each may hold; what is none is refused later."""
    defaults: Any = table.get("defaults")
    if isinstance(defaults, dict):
        held = cast("dict[str, Any]", defaults)
        yield "defaults", held, AssetDefaults
        policy: Any = held.get("retry_policy")
        if isinstance(policy, dict):
            yield "defaults.retry_policy", cast("dict[str, Any]", policy), RetryDefaults
    entries: Any = table.get("locations", [])
    for number, entry in enumerate(cast("list[Any]", entries) if isinstance(entries, list) else ()):
        if isinstance(entry, dict):
            yield f"locations[{number}]", cast("dict[str, Any]", entry), LocationEntry


def _retry(path: Path, prefix: str, written: RetryDefaults | None) -> RetryRules | None:
    if written is None:
        return None
    with _told_with(f"{path}: {prefix}defaults.retry_policy: "):
        return stored_policy(RetryPolicy(**msgspec.structs.asdict(written)))


def _store(path: Path, prefix: str, written: str | None) -> str | None:
    if written is None:
        return None
    with _told_with(f"{path}: {prefix}store: "):
        store = store_in(path.parent, written)
        _ = Address.of(store)  # refuses what can be no store
        return store


def _name(path: Path, what: str, written: str | None) -> str | None:
    with _told_with(f"{path}: "):
        return None if written is None else check_name(written, what)


def _location(path: Path, prefix: str, number: int, entry: LocationEntry) -> CodeLocation:
    where = f"{path}: {prefix}locations[{number}]"
    if (entry.file is None) == (entry.module is None):
        which = "neither a file nor a module" if entry.file is None else "a file and a module"
        raise Invalid(
            f"{where} has {which}", remedy='write one: file = "assets.py" or module = "shop.assets"'
        )
    folder = Path(os.path.normpath(path.parent / entry.folder))
    if not is_folder(folder):
        raise Invalid(
            f"{where}.folder: there is no folder {folder}",
            remedy="name a folder relative to the project file",
        )
    code = entry.module or os.path.relpath(path.parent / (entry.file or ""), folder)
    return CodeLocation(
        name=_location_name(where, entry),
        code=code,
        folder=str(folder),
        as_dagster=entry.as_dagster,
    )


def _location_name(where: str, entry: LocationEntry) -> str:
    file = os.path.normpath(entry.file or "")
    if not entry.name and file.startswith(".."):
        raise Invalid(
            f"{where}: a file outside of the folder of the project file needs a name",
            remedy='add one: name = "…"',
        )
    with _told_with(f"{where}: "):
        return check_text(entry.name or entry.module or file, "name")


# --- what is refused ------------------------------------------------------------------------------


@contextmanager
def _told_with(where: str) -> Generator[None]:
    """Say where in the file something is that is refused."""
    try:
        yield
    except Invalid as error:
        raise Invalid(f"{where}{error.message}", remedy=error.remedy) from None


def _refuse_unknown(
    path: Path, prefix: str, table: Mapping[str, Any], kind: type[msgspec.Struct]
) -> None:
    known = list(kind.__struct_fields__)
    for key in table:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            remedy = f"write {close[0]}" if close else f"use one of {', '.join(known)}"
            raise Invalid(f"{path}: unknown key {prefix}{key}", remedy=remedy)


def _wrong_type(path: Path, prefix: str, error: msgspec.ValidationError) -> Invalid:
    """What msgspec says, with the key as it is written in the file."""
    what, _, place = str(error).partition(" - at `$.")
    key = place.removesuffix("`").replace("[...]", "")
    return Invalid(
        f"{path}: {prefix}{key}: {what[:1].lower()}{what[1:]}",
        remedy="correct the value; see the project file in the documentation",
    )


def _refuse_namesakes(path: Path, locations: tuple[CodeLocation, ...]) -> None:
    seen: set[str] = set()
    for one in locations:
        if one.name in seen:
            raise Invalid(
                f"{path}: two locations are named {one.name}",
                remedy='give each a unique name: name = "…"',
            )
        seen.add(one.name)
