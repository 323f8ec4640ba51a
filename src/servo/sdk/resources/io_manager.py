"""IO managers: how the values of assets are stored and loaded."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Self, cast, overload

from servo.errors import Invalid, NotFound
from servo.sdk.resources.deferred_config import schema_model
from servo.sdk.resources.io_context import InputContext, OutputContext
from servo.sdk.resources.resources import Maker, ResourceDefinition


class InputManager(ABC):
    """Loads the values of inputs."""

    @abstractmethod
    def load_input(self, context: InputContext) -> Any:
        """Load the value of an input."""


class IOManager(InputManager):
    """Stores the values that assets return, and loads them for downstream assets.

        class Memory(IOManager):
            def __init__(self):
                self.values = {}

            def handle_output(self, context, obj):
                self.values[context.asset_key] = obj

            def load_input(self, context):
                return self.values[context.asset_key]

        Definitions(assets=[...], resources={"io_manager": Memory()})

    The resource `io_manager` is the default of all assets; `@asset(io_manager_key=...)` names
    another.
    """

    @abstractmethod
    def handle_output(self, context: OutputContext, obj: Any) -> None:
        """Store a value."""


class IOManagerDefinition(ResourceDefinition):
    """A function that creates an IO manager."""

    def __init__(
        self,
        resource_fn: Maker,
        config_schema: Any = None,
        description: str | None = None,
        required_resource_keys: Iterable[str] | None = None,
    ) -> None:
        super().__init__(resource_fn, config_schema, description, required_resource_keys)
        self.output_config_schema: type[Any] | None = None
        self.input_config_schema: type[Any] | None = None

    @classmethod
    def hardcoded_io_manager(cls, value: IOManager, description: str | None = None) -> Self:
        """The definition of an existing IO manager."""
        return cls.hardcoded_resource(value, description)

    def with_schemas(self, output: Any, inputs: Any) -> Self:
        """The same definition with config schemas for single outputs and inputs."""
        self.output_config_schema = schema_model(output, f"outputs of {self.name}")
        self.input_config_schema = schema_model(inputs, f"inputs of {self.name}")
        return self


@overload
def io_manager(config_schema: Maker, /) -> IOManagerDefinition: ...
@overload
def io_manager(
    config_schema: Mapping[str, Any] | type[Any] | None = None,
    description: str | None = None,
    *,
    output_config_schema: Any = None,
    input_config_schema: Any = None,
    required_resource_keys: Iterable[str] | None = None,
) -> Callable[[Maker], IOManagerDefinition]: ...


def io_manager(
    config_schema: Any = None,
    description: str | None = None,
    *,
    output_config_schema: Any = None,
    input_config_schema: Any = None,
    required_resource_keys: Iterable[str] | None = None,
) -> Any:
    """Define an IO manager by a function that creates it, with or without a context.

    @io_manager(config_schema={"folder": str})
    def files(context):
        return Files(context.resource_config["folder"])
    """
    if inspect.isroutine(config_schema):
        return IOManagerDefinition(config_schema)

    def define(fn: Maker) -> IOManagerDefinition:
        made = IOManagerDefinition(fn, config_schema, description, required_resource_keys)
        return made.with_schemas(output_config_schema, input_config_schema)

    return define


class InMemoryIOManager(IOManager):
    """Keeps values in this process, for tests and notebooks."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], Any] = {}

    def handle_output(self, context: OutputContext, obj: Any) -> None:
        """Keep a value."""
        self.values[tuple(context.get_identifier())] = obj

    def load_input(self, context: InputContext) -> Any:
        """The kept value; `NotFound` if there is none."""
        if context.has_asset_partitions and len(context.asset_partition_keys) != 1:
            parts = context.asset_key.parts
            return {key: self._find((*parts, key)) for key in context.asset_partition_keys}
        return self._find(tuple(context.get_identifier()))

    def _find(self, identifier: tuple[str, ...]) -> Any:
        if identifier not in self.values:
            raise NotFound(
                f"there is no value in memory for {'/'.join(identifier)}",
                remedy="materialize it first, in the same process",
            )
        return self.values[identifier]


mem_io_manager = IOManagerDefinition.hardcoded_io_manager(
    InMemoryIOManager(), "Keeps values for as long as the process lives."
)


def stores_values(value: Any) -> bool:
    """Whether a resource is an IO manager, or creates one."""
    known = isinstance(value, IOManager | IOManagerDefinition)
    return known or hasattr(cast("type[object]", type(value)), "create_io_manager")


def check_io_manager(value: Any, key: str) -> IOManager:
    """Check that a resource can store and load values."""
    if callable(getattr(value, "handle_output", None)) and callable(
        getattr(value, "load_input", None)
    ):
        return value
    raise Invalid(
        f"the resource {key!r} is {type(value).__name__}, which is not an IO manager",
        remedy="define handle_output(context, obj) and load_input(context) in it",
    )
