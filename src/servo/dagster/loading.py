"""Gathering the definitions of modules, packages and folders, as newer projects do.

@dg.definitions
def defs():
    return dg.load_from_defs_folder(path_within_project=Path(__file__).parent)
"""

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from servo.errors import Invalid, NotFound
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.specs import AssetSpec
from servo.sdk.checks.definition import AssetChecksDefinition
from servo.sdk.definitions.definitions import Definitions
from servo.sdk.definitions.gathering import SCHEDULES, SENSORS, found_in
from servo.sdk.definitions.jobs import AssetJob


class CalledDefinitions(Definitions):
    """The result of a function decorated with `@definitions`; calling it returns it again."""

    def __call__(self, *context: Any) -> Definitions:
        """What the function returned."""
        del context
        return self


def definitions(fn: Callable[..., Any]) -> CalledDefinitions:
    """Use the definitions that the decorated function returns."""
    if inspect.signature(fn).parameters:
        raise Invalid(
            f"{fn.__name__} takes a context, but components are not supported",
            remedy="remove the parameter",
        )
    made = fn()
    if not isinstance(made, Definitions):
        raise Invalid(f"{fn.__name__} returned {made!r}", remedy="return Definitions(…)")
    called = CalledDefinitions.__new__(CalledDefinitions)
    vars(called).update(vars(made))
    return called


def load_definitions_from_modules(
    modules: Iterable[ModuleType], resources: Mapping[str, Any] | None = None, **options: Any
) -> Definitions:
    """Load the definitions at the top level of several modules."""
    return _gathered(list(modules), resources, options)


def load_definitions_from_module(
    module: ModuleType, resources: Mapping[str, Any] | None = None, **options: Any
) -> Definitions:
    """Load the definitions at the top level of a module."""
    return _gathered([module], resources, options)


def load_definitions_from_current_module(
    resources: Mapping[str, Any] | None = None, **options: Any
) -> Definitions:
    """Load the definitions that the calling module has created so far."""
    frame = inspect.currentframe()
    caller = frame.f_back.f_globals["__name__"] if frame is not None and frame.f_back else ""
    return _gathered([sys.modules[caller]], resources, options)


def load_definitions_from_package_module(
    package_module: ModuleType, resources: Mapping[str, Any] | None = None, **options: Any
) -> Definitions:
    """Load the definitions of a package and all its modules."""
    return _gathered(list(_walked(package_module)), resources, options)


def load_definitions_from_package_name(
    package_name: str, resources: Mapping[str, Any] | None = None, **options: Any
) -> Definitions:
    """Load the definitions of a package and all its modules."""
    package = importlib.import_module(package_name)
    return load_definitions_from_package_module(package, resources, **options)


def load_from_defs_folder(
    *, path_within_project: Any = None, project_root: Any = None, defs_folder: Any = None
) -> Definitions:
    """Load the definitions in the Python files of the folder `defs` of a project.

    `path_within_project` is any path inside the package, such as `Path(__file__).parent`.
    """
    given = defs_folder or path_within_project or project_root
    if given is None:
        raise Invalid("load_from_defs_folder needs a folder", remedy="pass path_within_project=…")
    folder = _defs_folder(Path(given).resolve())
    files = sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)
    return _gathered([_imported(path) for path in files], None, {})


def _defs_folder(start: Path) -> Path:
    """The folder `defs` in a folder, in one of its packages, or in a parent folder."""
    if start.name == "defs" and start.is_dir():
        return start
    for place in (start, *start.parents):
        if (place / "defs").is_dir():
            return place / "defs"
        if not (place / "__init__.py").exists():
            break
    found = sorted([*start.glob("*/defs"), *start.glob("src/*/defs")])
    if len(found) == 1:
        return found[0]
    raise NotFound(f"there is no folder `defs` in {start}", remedy="create it, or pass the package")


def _imported(path: Path) -> ModuleType:
    """The module of a file, under the name that the rest of the project imports."""
    parts, root = [path.stem], path.parent
    while (root / "__init__.py").exists():
        parts.insert(0, root.name)
        root = root.parent
    if parts[-1] == "__init__":
        parts.pop()
    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    return importlib.import_module(".".join(parts) or path.stem)


def _walked(package: ModuleType) -> Iterator[ModuleType]:
    yield package
    for found in pkgutil.walk_packages(getattr(package, "__path__", ()), f"{package.__name__}."):
        yield importlib.import_module(found.name)


def _gathered(
    modules: Sequence[ModuleType], resources: Mapping[str, Any] | None, options: Mapping[str, Any]
) -> Definitions:
    accepted = {"executor", "loggers"}
    if unknown := sorted(set(options) - accepted):
        raise Invalid(f"there is no option {', '.join(unknown)}", remedy="leave it out")

    def of(*kinds: type[Any]) -> list[Any]:
        """The definitions of these kinds, each once, however many modules import it."""
        found = {id(item): item for module in modules for item in found_in(module, kinds)}
        return list(found.values())

    own = Definitions(
        of(AssetsDefinition, AssetSpec),
        resources=resources,
        jobs=of(AssetJob),
        schedules=of(*SCHEDULES),
        sensors=of(*SENSORS),
        asset_checks=of(AssetChecksDefinition),
    )
    return Definitions.merge(own, *of(Definitions))
