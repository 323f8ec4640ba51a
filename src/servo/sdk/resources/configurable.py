"""Resources and IO managers with fields: Pydantic models that say how to make what code gets."""

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
"""A field of a resource that another resource fills with an object of any type."""


class ConfigurableResourceFactory(ConfigModel, Generic[T]):
    """Fields that say how to make an object: define `create_resource`."""

    __servo_resource__: ClassVar[bool] = True
    __servo_definition__: ClassVar[bool] = True

    model_config = ConfigDict(arbitrary_types_allowed=True)

    _servo_context: InitResourceContext | None = PrivateAttr(default=None)

    @classmethod
    def __servo_later__(cls, value: Any) -> bool:
        return super().__servo_later__(value) or _makes_another(value)

    def create_resource(self, context: InitResourceContext) -> T:  # noqa: ARG002 - for subclasses
        """What the code gets."""
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
        """Around the code: everything from setup to teardown. Define this or the other two."""
        self.setup_for_execution(context)
        try:
            yield self.create_resource(context)
        finally:
            self.teardown_after_execution(context)

    @classmethod
    def configure_at_launch(cls, **fields: Any) -> "PartialResource":
        """A resource of which a run has to give the other fields."""
        return PartialResource(cls, fields)

    def with_replaced_resource_context(self, context: InitResourceContext) -> Self:
        """The same resource, made anew for this context."""
        return self.__servo_renew__({}, type(self).__name__).__servo_bind__(context)

    def __servo_launched__(self, given: Mapping[str, Any] | None, where: str) -> Self:
        """This resource with the fields that a run gives it."""
        return self if given is None else self.__servo_renew__(given, where)

    def __servo_bind__(self, context: InitResourceContext) -> Self:
        self._servo_context = context
        return self

    def get_resource_context(self) -> InitResourceContext:
        """The context this resource was made for."""
        if self._servo_context is None:
            raise Invalid(
                f"{type(self).__name__} was not initialized for an execution",
                remedy="use with_replaced_resource_context(build_init_resource_context())",
            )
        return self._servo_context

    @classmethod
    def from_resource_context(cls, context: InitResourceContext) -> T:
        """What the fields in the context's config make, without teardown."""
        made = build_config(cls, context.resource_config, where=f"resource {cls.__name__}")
        return made.with_replaced_resource_context(context).create_resource(context)

    @classmethod
    @contextmanager
    def from_resource_context_cm(cls, context: InitResourceContext) -> Generator[T]:
        """What the fields in the context's config make, from setup to teardown."""
        made = build_config(cls, context.resource_config, where=f"resource {cls.__name__}")
        with made.with_replaced_resource_context(context).yield_for_execution(context) as resource:
            yield resource


class ConfigurableResource(ConfigurableResourceFactory[T]):
    """A resource: fields that can be configured, and methods for assets to call.

    State that is not configuration belongs in private attributes, set in `setup_for_execution`.
    """

    def create_resource(self, context: InitResourceContext) -> T:  # noqa: ARG002 - for subclasses
        """What the code gets: this, unless a subclass says otherwise."""
        return cast("T", self)


class PartialResource:
    """A resource that waits for fields that a run gives."""

    __servo_definition__: ClassVar[bool] = True

    def __init__(self, made_by: type[ConfigurableResourceFactory[Any]], fields: dict[str, Any]):
        self.made_by = made_by
        self.fields = fields

    def __servo_launched__(
        self, given: Mapping[str, Any] | None, where: str
    ) -> ConfigurableResourceFactory[Any]:
        """The resource, with the fields that a run gives it."""
        return validated(self.made_by, {**self.fields, **(given or {})}, where)

    def __repr__(self) -> str:
        return f"{self.made_by.__name__}.configure_at_launch({', '.join(self.fields)})"


def _makes_another(value: Any) -> bool:
    """Whether a value in a field of a resource stands for an object that it will make."""
    if isinstance(value, ConfigurableResourceFactory):
        kind: Any = type(cast("object", value))
        return kind.create_resource is not ConfigurableResource.create_resource
    return isinstance(value, ResourceDefinition | PartialResource)


# --- IO managers ----------------------------------------------------------------------------------


class ConfigurableIOManager(ConfigurableResource, IOManager):
    """An IO manager with fields that can be configured: define `handle_output` and `load_input`."""


IO = TypeVar("IO", bound=IOManager, default=IOManager)


class ConfigurableIOManagerFactory(ConfigurableResourceFactory[IO], Generic[IO]):
    """Fields that say how to make an IO manager: define `create_io_manager`."""

    @abstractmethod
    def create_io_manager(self, context: InitResourceContext) -> IO:
        """The IO manager."""

    def create_resource(self, context: InitResourceContext) -> IO:
        """The IO manager."""
        return self.create_io_manager(context)
