"""What the functions of this package that take a workspace are: operations, or steps of them.

    @operation
    def get_run(workspace: Workspace, run_id: str) -> RunDetail: ...

Both take the workspace first. An operation is offered to everybody: the catalog lists it, the API
can have a route to it, and its parameters and result are part of the golden schema. A step is only
called in this process: by operations that share it, or by a host that does more between two steps.
"""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ROLE = "__servo_role__"


class Role(StrEnum):
    """What a function that takes a workspace is."""

    OPERATION = "operation"
    STEP = "step"


def operation(function: F) -> F:
    """Declare an operation: a verb of the product, with data as parameters and result."""
    setattr(function, _ROLE, Role.OPERATION)
    return function


def step(function: F) -> F:
    """Declare a step: a part of operations that nobody outside this process calls."""
    setattr(function, _ROLE, Role.STEP)
    return function


def role_of(function: Callable[..., Any]) -> Role | None:
    """What a function was declared to be, None if nothing was declared."""
    return getattr(function, _ROLE, None)
