"""Finding the assets in a file or a module.

A target is a path (`pipeline.py`, `jobs/`) or a dotted name (`shop.assets`). A file is imported
under its own name with its folder first on the path, as Python would run it; one in a package under
its full name, so that what it imports from there is found. A module may lie in `src`.
"""

import importlib
import importlib.util
import sys
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType

from servo.code.exits import exits_raised
from servo.code.fresh_source import FreshSource, import_fresh
from servo.dagster.scan import check_supported
from servo.dagster.stand_in import stand_in
from servo.errors import Invalid, NotFound
from servo.processes.own_code import is_own
from servo.processes.stopping import is_from_outside
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.definitions.gathering import assets_of, checks_of, jobs_of, schedules_of, sensors_of
from servo.sdk.definitions.project import Project
from servo.sdk.definitions.replaced import refuse_replaced
from servo.sdk.triggers.resolution import add_triggers
from servo.workspace.code_location import CodeLocation
from servo.workspace.typed_paths import is_file, is_folder


def load_location(location: CodeLocation) -> Project:
    """The project of a code location, imported into this process."""
    project = load_project(location.code, Path(location.folder), as_dagster=location.as_dagster)
    project.default_retry = location.retry
    return project


def load_project(target: str, folder: Path, *, as_dagster: bool = False) -> Project:
    """The project that `target` defines, read from `folder`.

    With `as_dagster` what it imports as `dagster` is `servo.dagster`, from now on in this process.
    """
    if as_dagster:
        check_supported(target, folder)
        stand_in()
    return project_of(load_module(target, folder))


def load_module(target: str, folder: Path) -> ModuleType:
    """Import a file or a module; `Invalid` with the place of what is wrong in it."""
    path = folder / target
    import_fresh(folder)
    if target.endswith(".py") or is_file(path):
        return _import_file(path, target)
    for place in roots_of(target, folder):
        if str(place) not in sys.path:
            sys.path.insert(0, str(place))
    try:
        with exits_raised():
            return importlib.import_module(target)
    except ModuleNotFoundError as error:
        if error.name is not None and target.startswith(error.name):
            raise NotFound(
                f"there is no file or module {target}",
                remedy="name a Python file, or a module that can be imported from here",
            ) from None
        raise _broken(target, error) from error
    except BaseException as error:
        if is_from_outside(error):
            raise
        raise _broken(target, error) from error


def roots_of(target: str, folder: Path) -> list[Path]:
    """Where modules of a project are searched, the first place last: its folder and `src`."""
    inner, first = folder / "src", target.partition(".")[0]
    has = is_folder(inner / first) or is_file(inner / f"{first}.py")
    return [folder, inner] if has else [folder]


def _import_file(path: Path, target: str) -> ModuleType:
    if not is_file(path):
        files = path.parent.glob("*.py") if is_folder(path.parent) else ()
        beside = [str(Path(target).with_name(one.name)) for one in files]
        close = get_close_matches(target, beside, n=1)
        remedy = f"did you mean {close[0]}?" if close else "name a Python file that defines assets"
        raise NotFound(f"there is no file {target}", remedy=remedy)
    parent = str(path.parent.resolve())
    import_fresh(path.parent)
    if parent not in sys.path:
        sys.path.insert(0, parent)
    name = _name_of(path.resolve())
    if path.suffix != ".py":
        raise Invalid(f"{target} is not a Python file", remedy="name a file that ends in .py")
    _refuse_namesake(path, name)
    loader = FreshSource(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    if spec is None:  # a loader was given, so there is always one
        raise Invalid(f"{target} cannot be imported", remedy="name a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    try:
        with exits_raised():
            if package := name.rpartition(".")[0]:
                _ = importlib.import_module(package)
            sys.modules[name] = module
            loader.exec_module(module)
    except BaseException as error:
        _ = sys.modules.pop(name, None)
        if is_from_outside(error):
            raise
        raise _broken(target, error) from error
    return module


def _refuse_namesake(path: Path, name: str) -> None:
    """Raise `Invalid` if a file would hide a module of the standard library that is in use."""
    used = sys.modules.get(name) if name in sys.stdlib_module_names else None
    if used is not None and getattr(used, "__file__", "") != str(path):
        raise Invalid(
            f"{path.name} has the name of a standard library module, which it would hide",
            remedy="rename the file",
        )


def _name_of(path: Path) -> str:
    """The name of a file's module: in a package that of the package too, found from its root."""
    parts, root = [path.stem], path.parent
    while (root / "__init__.py").is_file():
        parts.insert(0, root.name)
        root = root.parent
    if len(parts) > 1 and str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return ".".join(parts)


def _broken(target: str, error: BaseException) -> Invalid:
    missing = error.name if isinstance(error, ModuleNotFoundError) else ""
    told = error.msg if isinstance(error, SyntaxError) else error  # its text repeats the place
    if missing == "dagster":
        remedy = "use --as-dagster, or import servo.dagster as dg"
    elif missing:
        remedy = "install the package, or fix the import at that line"
    else:
        remedy = "fix the code at that line"
    return Invalid(
        f"{target} cannot be imported: {type(error).__name__}: {told}{_place(error)}",
        remedy=remedy,
    )


def _place(error: BaseException) -> str:
    """Where in the user's own code it happened."""
    if isinstance(error, SyntaxError):
        return f" ({error.filename}:{error.lineno})"
    place, trace = "", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if not name.startswith("<") and "importlib" not in name and not is_own(name):
            place = f" ({name}:{trace.tb_lineno})"
        trace = trace.tb_next
    return place


def project_of(module: ModuleType) -> Project:
    """What a module defines: its `Definitions` if it has one, otherwise the assets in it."""
    given = [value for value in vars(module).values() if isinstance(value, Definitions)]
    unique = list({id(value): value for value in given}.values())
    if len(unique) > 1:
        raise Invalid(
            f"{module.__name__} has {len(unique)} Definitions",
            remedy="keep one, or combine them with Definitions.merge",
        )
    if unique:
        refuse_replaced(module)
        return unique[0].project()
    assets = assets_of(module)
    if not assets:
        raise Invalid(
            f"{module.__name__} defines no assets", remedy="decorate a function with @servo.asset"
        )
    project = Project(assets, checks=checks_of(module), jobs=jobs_of(module))
    add_triggers(project, schedules_of(module), sensors_of(module))
    return project
