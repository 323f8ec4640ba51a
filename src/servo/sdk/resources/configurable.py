"""Resources and IO managers with configurable fields, as Pydantic models."""

from abc import abstractmethod
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Annotated, Any, ClassVar, Generic, Self, cast

from pydantic import ConfigDict, PrivateAttr, SkipValidation
from typing_extensions import TypeVar

from servo.errors import Invalid
from servo.sdk.resources.config import ConfigModel, build_config
from servo.sdk.resources.config_errors import validated
from servo.sdk.resources.io_manager import IOManager
from servo.sdk.resources.resources import InitResourceContext, ResourceDefinition

T = TypeVar("T", default=Any)

ResourceDependency = Annotated[SkipValidation[T], "servo.resource"]
"""A field of a resource that holds another resource of any type."""


class ConfigurableResourceFactory(ConfigModel, Generic[T]):
    """A resource whose fields configure another object: define `create_resource`."""

    __servo_resource__: ClassVar[bool] = True
    __servo_definition__: ClassVar[bool] = True

    model_config = ConfigDict(arbitrary_types_allowed=True)

    _servo_context: InitResourceContext | None = PrivateAttr(default=None)

    @classmethod
    def __servo_later__(cls, value: Any) -> bool:
        return super().__servo_later__(value) or _makes_another(value)

    def create_resource(self, context: InitResourceContext) -> T:  # noqa: ARG002 - for subclasses
        """Create the object that the code gets."""
        raise Invalid(
            f"{type(self).__name__} does not implement create_resource",
            remedy="define create_resource(self, context) in it",
        )

    def setup_for_execution(self, context: InitResourceContext) -> None:
        """Called before the code runs."""

    def teardown_after_execution(self, context: InitResourceContext) -> None:
        """Called after the code ran, also if it failed."""

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Generator[T]:
        """A context manager around the code, instead of separate setup and teardown methods."""
        self.setup_for_execution(context)
        try:
            yield self.create_resource(context)
        finally:
            self.teardown_after_execution(context)

    @classmethod
    def configure_at_launch(cls, **fields: Any) -> "PartialResource":
        """A resource whose other fields each run has to configure."""
        return PartialResource(cls, fields)

    def with_replaced_resource_context(self, context: InitResourceContext) -> Self:
        """A copy of the resource, initialized for this context."""
        return self.__servo_renew__({}, type(self).__name__).__servo_bind__(context)

    def __servo_launched__(self, given: Mapping[str, Any] | None, where: str) -> Self:
        """The resource with the fields from the run config."""
        return self if given is None else self.__servo_renew__(given, where)

    def __servo_bind__(self, context: InitResourceContext) -> Self:
        self._servo_context = context
        return self

    def get_resource_context(self) -> InitResourceContext:
        """The context that this resource was initialized for."""
        if self._servo_context is None:
            raise Invalid(
                f"{type(self).__name__} was not initialized for an execution",
                remedy="use with_replaced_resource_context(build_init_resource_context())",
            )
        return self._servo_context

    @classmethod
    def from_resource_context(cls, context: InitResourceContext) -> T:
        """Create the object from the context's config, without teardown."""
        made = build_config(cls, context.resource_config, where=f"resource {cls.__name__}")
        return made.with_replaced_resource_context(context).create_resource(context)

    @classmethod
    @contextmanager
    def from_resource_context_cm(cls, context: InitResourceContext) -> Generator[T]:
        """Create the object from the context's config, as a context manager with teardown."""
        made = build_config(cls, context.resource_config, where=f"resource {cls.__name__}")
        with made.with_replaced_resource_context(context).yield_for_execution(context) as resource:
            yield resource


class ConfigurableResource(ConfigurableResourceFactory[T]):
    """A resource: configurable fields, and methods for assets to call.

        class Warehouse(ConfigurableResource):
            url: str

            def query(self, sql: str) -> list: ...

        @asset
        def orders(warehouse: Warehouse):
            return warehouse.query("select * from orders")

        defs = Definitions(
            assets=[orders], resources={"warehouse": Warehouse(url=EnvVar("WAREHOUSE_URL"))}
        )

    Keep connections and other state in private attributes, and set them in `setup_for_execution`.
    """

    def create_resource(self, context: InitResourceContext) -> T:  # noqa: ARG002 - for subclasses
        """The object that the code gets: this resource, unless a subclass overrides it."""
        return cast("T", self)


class PartialResource:
    """A resource whose remaining fields come from the run config."""

    __servo_definition__: ClassVar[bool] = True

    def __init__(self, made_by: type[ConfigurableResourceFactory[Any]], fields: dict[str, Any]):
        self.made_by = made_by
        self.fields = fields

    def __servo_launched__(
        self, given: Mapping[str, Any] | None, where: str
    ) -> ConfigurableResourceFactory[Any]:
        """The resource with the fields from the run config."""
        return validated(self.made_by, {**self.fields, **(given or {})}, where)

    def __repr__(self) -> str:
        return f"{self.made_by.__name__}.configure_at_launch({', '.join(self.fields)})"


def _makes_another(value: Any) -> bool:
    """Whether a field of a resource holds a factory of another object."""
    if isinstance(value, ConfigurableResourceFactory):
        kind: Any = type(cast("object", value))
        return kind.create_resource is not ConfigurableResource.create_resource
    return isinstance(value, ResourceDefinition | PartialResource)


# --- IO managers ----------------------------------------------------------------------------------


class ConfigurableIOManager(ConfigurableResource, IOManager):
    """An IO manager with configurable fields: define `handle_output` and `load_input`.

    class CsvFiles(ConfigurableIOManager):
        folder: str

        def handle_output(self, context, obj):
            obj.to_csv(f"{self.folder}/{context.asset_key.to_user_string()}.csv")

        def load_input(self, context):
            return read_csv(f"{self.folder}/{context.asset_key.to_user_string()}.csv")
    """


IO = TypeVar("IO", bound=IOManager, default=IOManager)


class ConfigurableIOManagerFactory(ConfigurableResourceFactory[IO], Generic[IO]):
    """A resource whose fields configure an IO manager: define `create_io_manager`."""

    @abstractmethod
    def create_io_manager(self, context: InitResourceContext) -> IO:
        """Create the IO manager."""

    def create_resource(self, context: InitResourceContext) -> IO:
        """Create the IO manager."""
        return self.create_io_manager(context)
