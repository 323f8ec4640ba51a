"""Resources: objects that assets use, such as a database connection or a client.

    class Warehouse(ConfigurableResource):
        url: str

    Definitions(assets=[...], resources={"warehouse": Warehouse(url=EnvVar("WAREHOUSE_URL"))})

`Definitions` holds definitions. For each execution, `open_resources` initializes them: variables
are resolved, nested resources are initialized first and once each, and everything is torn down in
reverse order, whatever happened.

Resources with fields are in `servo.sdk.resources.configurable`, so that projects without them need
not import Pydantic.
"""

import inspect
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ContextDecorator, contextmanager, nullcontext
from difflib import get_close_matches
from importlib import import_module
from typing import Annotated, Any, ClassVar, Self, cast, overload

from typing_extensions import TypeVar

from servo.errors import Invalid, ServoError
from servo.sdk.assets.context import Logger
from servo.sdk.resources.deferred_config import build_config, schema_model
from servo.sdk.resources.environment import environment
from servo.sdk.resources.references import is_model
from servo.sdk.resources.run_config import RunConfig
from servo.sdk.resources.secrets import SecretProvider, providing

T = TypeVar("T", default=Any)

ResourceParam = Annotated[T, "servo.resource"]
"""A parameter that is a resource although its type is not one: `ResourceParam[Client]`."""


class Silence:
    """A log that discards everything."""

    def debug(self, msg: object, *args: object) -> None:
        """Discard the message."""

    info = warning = error = debug


class UnknownResource(Invalid, AttributeError):
    """There is no resource of this name."""


class Resources:
    """The resources of an execution, as attributes."""

    def __init__(self, made: Mapping[str, Any] | None = None) -> None:
        self._made = dict(made or {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # looked up by copy, pickle and the like
            raise AttributeError(name)
        if name not in self._made:
            raise unknown_resource(name, self._made)
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def _asdict(self) -> dict[str, Any]:
        """All of them, by name."""
        return dict(self._made)

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __repr__(self) -> str:
        return f"<resources {', '.join(self._made)}>"  # names only: a resource may show a secret


def unknown_resource(name: str, known: Iterable[str], *, asked_by: str = "") -> UnknownResource:
    """The error for a missing resource, with the available ones."""
    there = sorted(known)
    close = get_close_matches(name, there, n=1)
    who = f", which {asked_by} needs" if asked_by else ""
    return UnknownResource(
        f"there is no resource {name!r}{who}; {_listed(there)}",
        remedy=f"did you mean {close[0]!r}?"
        if close
        else f'define it: resources={{"{name}": ...}}, and ask for it by an annotated parameter',
    )


def _listed(names: list[str]) -> str:
    return f"available: {', '.join(names)}" if names else "none are defined"


class HoldsResources:
    """A context that may open resources, and closes them on exit."""

    resources: Any
    _opened: AbstractContextManager[Any] = nullcontext()

    def holding(self, opened: AbstractContextManager[Resources]) -> Self:
        """This context with resources that it opens now and closes on exit."""
        self._opened = opened
        self.resources = opened.__enter__()
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: Any) -> None:
        self._opened.__exit__(*failure)


class InitResourceContext(HoldsResources):
    """The context of a resource's initialization: its config, other resources, log and run.

    A context built for a test is also a context manager that closes its resources.
    """

    def __init__(
        self,
        *,
        resource_config: Any = None,
        resources: Resources | None = None,
        log: Logger | None = None,
        run_id: str = "",
        instance: Any = None,
    ) -> None:
        self.resource_config = resource_config
        self.resources = resources or Resources()
        self.log: Logger = log or Silence()
        self.run_id = run_id
        self._instance = instance

    @property
    def instance(self) -> Any:
        """The `ServoInstance`, to query materializations and runs."""
        return self._instance() if callable(self._instance) else self._instance

    def replace_config(self, config: Any) -> "InitResourceContext":
        """The same context with another config."""
        return InitResourceContext(
            resource_config=config,
            resources=self.resources,
            log=self.log,
            run_id=self.run_id,
            instance=self._instance,
        )


class ResourceDefinition:
    """A function that creates a resource; a generator function also tears it down."""

    __servo_definition__: ClassVar[bool] = True

    def __init__(
        self,
        resource_fn: Callable[..., Any],
        config_schema: Any = None,
        description: str | None = None,
        required_resource_keys: Iterable[str] | None = None,
    ) -> None:
        self.resource_fn = resource_fn
        self.name = getattr(resource_fn, "__name__", "resource")
        self.config_schema = schema_model(config_schema, f"resource {self.name}")
        self.description = description or inspect.getdoc(resource_fn)
        self.required_resource_keys = frozenset(required_resource_keys or ())
        self._fixed: Any = None

    @classmethod
    def hardcoded_resource(cls, value: Any, description: str | None = None) -> Self:
        """A resource that is this value."""
        return cls(lambda: value, description=description)

    @classmethod
    def none_resource(cls, description: str | None = None) -> Self:
        """A resource that is `None`."""
        return cls.hardcoded_resource(None, description)

    @classmethod
    def mock_resource(cls, description: str | None = None) -> Self:
        """A resource that accepts every call, for tests."""
        return cls(lambda: import_module("unittest.mock").MagicMock(), description=description)

    def configured(self, config: Any) -> Self:
        """The same definition with a config: values, or a function of the run config."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        copied._fixed = config
        return copied

    def config_from(self, launch: Any, environ: Mapping[str, str], where: str) -> Any:
        """The config that the function sees."""
        given = self._fixed if launch is None else launch
        if callable(self._fixed):
            given = self._fixed(launch)
        if self.config_schema is None:
            return build_config(None, given, where=where, environ=environ)
        made = build_config(self.config_schema, given, where=where, environ=environ)
        return made.model_dump()

    def open(self, context: InitResourceContext) -> AbstractContextManager[Any]:
        """A context manager for the resource."""
        arguments = (context,) if inspect.signature(self.resource_fn).parameters else ()
        if inspect.isgeneratorfunction(self.resource_fn):
            return _resumed(self.resource_fn(*arguments), self.name)
        made = self.resource_fn(*arguments)
        # A function decorated as a context manager, not a connection that could be used as one.
        if isinstance(made, ContextDecorator) and isinstance(made, AbstractContextManager):
            return cast("AbstractContextManager[Any]", made)
        return nullcontext(made)

    def __call__(self, *context: InitResourceContext) -> Any:
        """Call the function directly, as a test does."""
        return self.resource_fn(*context)


@contextmanager
def _resumed(generator: Generator[Any], name: str) -> Generator[Any]:
    """What a generator yields; the rest of it runs afterwards, without the body's error.

    A bare generator is not a context manager: its author may have left out the `try`.
    """
    for made in generator:
        try:
            yield made
        finally:
            next(generator, None)
        return
    raise Invalid(f"resource {name} yields nothing", remedy="yield the resource once")


Maker = Callable[..., Any]


@overload
def resource(config_schema: Maker, /) -> ResourceDefinition: ...
@overload
def resource(
    config_schema: Mapping[str, Any] | type[Any] | None = None,
    description: str | None = None,
    required_resource_keys: Iterable[str] | None = None,
    version: str | None = None,
) -> Callable[[Maker], ResourceDefinition]: ...


def resource(
    config_schema: Any = None,
    description: str | None = None,
    required_resource_keys: Iterable[str] | None = None,
    version: str | None = None,
) -> Any:
    """Define a resource by a function that creates it, with or without a context.

        @resource(config_schema={"url": str})
        def warehouse(context):
            connection = connect(context.resource_config["url"])
            yield connection
            connection.close()

    `ConfigurableResource` is the newer way.
    """
    del version  # Dagster used it for memoization, which assets do not have
    if inspect.isroutine(config_schema):
        return ResourceDefinition(config_schema)

    def define(fn: Maker) -> ResourceDefinition:
        return ResourceDefinition(fn, config_schema, description, required_resource_keys)

    return define


def is_definition(value: Any) -> bool:
    """Whether a value defines a resource, rather than being one."""
    return bool(getattr(cast("type[object]", type(value)), "__servo_definition__", False))


# --- opening --------------------------------------------------------------------------------------


@contextmanager
def open_resources(
    definitions: Mapping[str, Any],
    needed: Collection[str],
    environ: Mapping[str, str],
    *,
    config: Mapping[str, Any] | None = None,
    context: InitResourceContext | None = None,
) -> Generator[Resources]:
    """Initialize the needed resources and those they require, and tear them down in reverse order.

    `config` is the run config by resource, `context` what every resource gets (its log and its
    run). Other values stay as they are. If the body fails, its error is raised, with a note on
    every teardown that failed too; otherwise the first failure of a teardown is raised.
    """
    opening = _Opening(definitions, environ, config or {}, context or InitResourceContext())
    try:
        yield Resources({name: opening.named(name) for name in sorted(needed)})
    except BaseException as error:
        opening.close(error)
        raise
    opening.close(None)


class _Opening:
    """Resources that are being initialized, and later torn down."""

    def __init__(
        self,
        definitions: Mapping[str, Any],
        environ: Mapping[str, str],
        config: Mapping[str, Any],
        context: InitResourceContext,
    ) -> None:
        self._definitions = definitions
        self._environ = environ
        self._config = config
        self._context = context
        # By identity: equal resources are separate, and one object under two names is opened once.
        self._names = {id(value): name for name, value in definitions.items()}
        self._made: dict[int, Any] = {}
        self._under_way: dict[int, str] = {}
        self._entered: list[tuple[str, AbstractContextManager[Any]]] = []

    def named(self, name: str, *, asked_by: str = "") -> Any:
        if name not in self._definitions:
            raise unknown_resource(name, self._definitions, asked_by=asked_by)
        return self._of(self._definitions[name], name)

    def _of(self, definition: Any, name: str) -> Any:
        if not is_definition(definition):
            return definition
        me = id(cast("object", definition))
        if me in self._under_way:
            raise _cycle([*self._under_way.values(), name])
        if me not in self._made:
            self._under_way[me] = name
            self._made[me] = self._enter(definition, self._names.get(me, name))
            del self._under_way[me]
        return self._made[me]

    def _enter(self, definition: Any, name: str) -> Any:
        try:
            around = self._around(definition, name)
            made = around.__enter__()
        except Exception as error:
            if not isinstance(error, ServoError):  # our errors already name the resource
                error.add_note(f"while making the resource {name}")
            raise
        self._entered.append((name, around))
        return made

    def _around(self, definition: Any, name: str) -> AbstractContextManager[Any]:
        if isinstance(definition, ResourceDefinition):
            return definition.open(self._context_of(definition, name))
        where = f"resource {name}"
        launch = self._config.get(name)
        given = None if launch is None else _fields(launch, where)
        definition = definition.__servo_launched__(given, where)
        fresh = definition.__servo_resolve__(self._environ, where, self._inner(definition, name))
        context = self._context.replace_config(fresh.__servo_veiled__())
        return fresh.__servo_bind__(context).yield_for_execution(context)

    def _inner(self, definition: Any, name: str) -> dict[str, Any]:
        """The nested resources in the fields of a resource."""
        return {
            field: self._of(value, f"{name}.{field}")
            for field, value in definition.__servo_values__().items()
            if is_definition(value)
        }

    def _context_of(self, definition: ResourceDefinition, name: str) -> InitResourceContext:
        config = definition.config_from(self._config.get(name), self._environ, f"resource {name}")
        context = self._context.replace_config(config)
        needed = sorted(definition.required_resource_keys)
        context.resources = Resources(
            {key: self.named(key, asked_by=f"resource {name}") for key in needed}
        )
        return context

    def close(self, error: BaseException | None) -> None:
        """Tear down everything; a failure does not keep the rest from being torn down."""
        first = error
        for name, around in reversed(self._entered):
            try:
                around.__exit__(type(error) if error else None, error, _trace(error))
            except BaseException as other:  # noqa: BLE001 - raised below, or told with the first
                if first is None:
                    first = other
                elif other is not first:
                    told = f"{type(other).__name__}: {other}"
                    first.add_note(f"tearing down the resource {name} failed too: {told}")
        if first is not None and first is not error:
            raise first


def _trace(error: BaseException | None) -> Any:
    return None if error is None else error.__traceback__


def _fields(launch: Any, where: str) -> dict[str, Any]:
    if is_model(launch):
        return launch.__servo_values__()
    if isinstance(launch, Mapping):
        return dict(cast("Mapping[str, Any]", launch))
    raise Invalid(f"{where}: the run config is {launch!r}", remedy="pass its fields by name")


def _cycle(names: list[str]) -> Invalid:
    whole = names[names.index(names[-1]) :]
    return Invalid(
        f"resources require each other: {' → '.join(whole)}",
        remedy="remove one of them from the required_resource_keys of another",
    )


@contextmanager
def build_resources(
    resources: Mapping[str, Any],
    *,
    resource_config: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    log: Logger | None = None,
    secrets: Iterable[SecretProvider] = (),
) -> Generator[Resources]:
    """Initialize resources for a test or a notebook, as an asset would get them.

    with build_resources({"warehouse": Warehouse(url="...")}) as resources:
        resources.warehouse.query("select 1")
    """
    known = environment() if environ is None else environ
    config = RunConfig(resources=resource_config).for_resources()
    context = InitResourceContext(log=log)
    given = list(secrets)
    with (
        providing(given) if given else nullcontext(),
        open_resources(resources, resources, known, config=config, context=context) as opened,
    ):
        yield opened


def build_init_resource_context(
    config: Any = None,
    resources: Mapping[str, Any] | None = None,
    *,
    log: Logger | None = None,
    instance: Any = None,
) -> InitResourceContext:
    """Build a context to initialize a resource in a test; use `with` to tear its resources down."""
    context = InitResourceContext(resource_config=config, log=log, instance=instance)
    return context.holding(build_resources(resources, log=log)) if resources else context
