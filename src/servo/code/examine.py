"""Examining a project in a separate process, so that its code cannot affect this one.

    python -m servo.code.examine CODE FOLDER [as-dagster] [-- SELECTION...]

prints the result as JSON. `servo dev` does this before workers import the code again: code that
fails to import, or that ends the process, changes nothing.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

import msgspec

from servo.code.loader import load_project
from servo.core.declared import Declared
from servo.errors import Invalid, NotFound, ServoError
from servo.processes.exits import exit_in_words, often_because
from servo.processes.own_code import is_own
from servo.processes.redacted_output import RedactedOutput
from servo.sdk.definitions.executors import ExecutorDefinition
from servo.sdk.definitions.needs import check_resources, near_misses
from servo.sdk.definitions.project import Project
from servo.sdk.resources.environment import set_environment
from servo.sdk.resources.redaction import hidden
from servo.sdk.resources.struct_redaction import Rules, kept, redact
from servo.sdk.selection.selection import AssetSelection
from servo.sdk.triggers.resolution import declared
from servo.workspace.code_location import CodeLocation
from servo.workspace.redacted_events import RULES
from servo.workspace.typed_paths import is_file

AS_DAGSTER = "as-dagster"
_LIBRARY = str(Path(os.__file__).parent) + os.sep
_OTHERS = frozenset({"site-packages", "dist-packages", "__pycache__"})


class Examined(msgspec.Struct, frozen=True, kw_only=True):
    """The code of a project: its files, and what they define or the error in them.

    `selected` are those of the given selections that match an asset of the project.
    `missing_resource` is the error of the first asset that needs a resource which is not defined,
    and `hints` are about dependencies that may be misspelt.
    """

    files: tuple[str, ...] = ()
    declared: Declared = Declared()
    jobs: tuple[str, ...] = ()
    selected: tuple[str, ...] = ()
    executor: ExecutorDefinition | None = None
    error: str = ""
    missing_resource: str = ""
    hints: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """The files as they are now; differs as soon as one is edited, added or removed."""
        return fingerprint(self.files)


_RULES: Rules = {**RULES, Examined: kept("files", "jobs", "selected")}


def imported_files(folder: Path) -> tuple[str, ...]:
    """The files of the user's own modules, as far as this process has imported them."""
    root = folder.resolve()
    found: set[str] = set()
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        if name.partition(".")[0] == "servo" or not isinstance(file, str):
            continue
        if file.startswith(_LIBRARY):
            continue  # by far the most modules, and finding out where a path leads takes time
        path = Path(file).resolve()
        if path.is_relative_to(root) and _OTHERS.isdisjoint(path.relative_to(root).parts):
            found.add(str(path))
    return tuple(sorted(found))


def fingerprint(files: tuple[str, ...]) -> str:
    """Names, sizes and times of files, in one text."""
    stamps: list[tuple[str, int, int]] = []
    for name in files:
        try:
            found = Path(name).stat()
        except OSError:
            stamps.append((name, 0, 0))
        else:
            stamps.append((name, found.st_mtime_ns, found.st_size))
    return sha256(msgspec.json.encode(stamps)).hexdigest()


def start_examining(
    location: CodeLocation, select: Sequence[str] = ()
) -> "subprocess.Popen[bytes]":
    """Start to examine; `finished` returns the result once the process has ended."""
    code, folder = location.code, location.folder
    more = [AS_DAGSTER] if location.as_dagster else []
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module
        [sys.executable, "-m", "servo.code.examine", code, folder, *more, "--", *select],
        stdout=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        cwd=folder,
        start_new_session=True,  # Ctrl-C is for the caller
    )


def finished(looking: "subprocess.Popen[bytes]", location: CodeLocation) -> Examined:
    """The result of an examining process; waits for it."""
    code = location.code
    data, _ = looking.communicate()
    try:
        return msgspec.json.decode(data, type=Examined)
    except msgspec.MsgspecError:
        ended = looking.returncode
        how = f"the process that imports it ended with {exit_in_words(ended)}{often_because(ended)}"
        return Examined(error=f"{code} cannot be imported: {how}; see what it printed")


def examine(locations: Sequence[CodeLocation], select: Sequence[str] = ()) -> list[Examined]:
    """What each location defines, or its error; `Invalid` if all have errors."""
    found = examine_each(locations, select)
    if all(one.error for one in found):
        what, _, remedy = "; ".join(one.error for one in found).rpartition("; ")
        raise Invalid(what, remedy=remedy)
    return found


def examine_each(locations: Sequence[CodeLocation], select: Sequence[str] = ()) -> list[Examined]:
    """What each location defines, or its error."""
    looking = [start_examining(one, select) for one in locations]
    return [finished(process, one) for process, one in zip(looking, locations, strict=True)]


def main() -> None:
    """Examine, and print the result where output of user code cannot mix with it."""
    given = sys.argv.index("--")
    code, folder, as_dagster = sys.argv[1], Path(sys.argv[2]), AS_DAGSTER in sys.argv[3:given]
    answer = os.dup(1)
    os.dup2(2, 1)
    output = RedactedOutput(hidden())
    set_environment(os.environ)
    try:
        project = load_project(code, folder, as_dagster=as_dagster)
        found = Examined(
            files=watched_files(code, folder),
            declared=declared(project),
            jobs=tuple(project.jobs),
            selected=tuple(text for text in sys.argv[given + 1 :] if _selects(project, text)),
            executor=project.executor,
            missing_resource=_missing_resource(project),
            hints=tuple(near_misses(project)),
        )
    except ServoError as error:
        found = Examined(files=watched_files(code, folder, error), error=str(error))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - user code is imported here
        message = f"{code} cannot be imported: {type(error).__name__}: {error}; fix the code"
        found = Examined(files=watched_files(code, folder, error), error=message)
    # Whoever asked may have been killed meanwhile.
    with suppress(BrokenPipeError), os.fdopen(answer, "wb") as out:
        out.write(msgspec.json.encode(redact(found, hidden(), _RULES)))
    output.finish()
    os._exit(0)  # do not wait for threads that user code started


def _missing_resource(project: Project) -> str:
    try:
        check_resources(project)
    except ServoError as error:
        return str(error)
    return ""


def _selects(project: Project, text: str) -> bool:
    """Whether a selection matches an asset of the project."""
    try:
        found = AssetSelection.from_coercible([text]).resolve(project)
    except (Invalid, NotFound):
        return False
    return any(key in project.makers for key in found)


def watched_files(code: str, folder: Path, error: BaseException | None = None) -> tuple[str, ...]:
    """The files that make up a project: what this process imported of it, and where it failed."""
    found = set(imported_files(folder))
    root = folder.resolve()
    if is_file(folder / code):
        found.add(str((folder / code).resolve()))
    while error is not None:
        trace = error.__traceback__
        names = [error.filename] if isinstance(error, SyntaxError) and error.filename else []
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_filename)
            trace = trace.tb_next
        paths = [Path(name).resolve() for name in names if Path(name).is_file()]
        found.update(str(p) for p in paths if p.is_relative_to(root) and not is_own(str(p)))
        error = error.__cause__
    return tuple(sorted(found))


if __name__ == "__main__":
    main()
