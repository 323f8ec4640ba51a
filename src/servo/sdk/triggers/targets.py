"""The target of a schedule or a sensor: a job, or a selection of assets."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from servo.errors import Invalid
from servo.sdk.assets.signature import Signature, read_signature
from servo.sdk.definitions.jobs import AssetJob

_NAME = re.compile(r"[A-Za-z0-9_]+")


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A job, by name or as an object, or a selection of assets."""

    job_name: str | None = None
    job: Any = None
    selection: Any = None

    @property
    def name(self) -> str | None:
        """The name of the job, if it is one."""
        return self.job_name or getattr(self.job, "name", None)


def one_target(
    what: str, *, job_name: str | None = None, job: Any = None, target: Any = None
) -> Target | None:
    """The only target given, or None."""
    given = [value for value in (job_name, job, target) if value is not None]
    if len(given) > 1:
        raise Invalid(
            f"{what} has several targets", remedy="pass only one of job, job_name and target"
        )
    if job is not None and not isinstance(getattr(job, "name", None), str):
        raise Invalid(f"{what}: {job!r} is not a job", remedy="use define_asset_job, or target=…")
    if not given:
        return None
    if isinstance(target, AssetJob):
        return Target(job=target)
    return Target(job_name=job_name, job=job, selection=target)


def evaluated_by(fn: Callable[..., Any], what: str, *, events: int = 0) -> Signature:
    """The signature of an evaluation function: its context, then events, and resources."""
    signature = read_signature(fn)
    inputs = signature.inputs
    if inputs and not signature.context:
        signature = msgspec.structs.replace(signature, context=inputs[0], inputs=inputs[1:])
    if len(signature.inputs) > events:
        raise Invalid(
            f"{what} takes {', '.join(signature.inputs[events:])}, which nothing provides",
            remedy="use only a context and resource parameters",
        )
    return signature


def called(
    fn: Callable[..., Any], signature: Signature, told: Sequence[Any], resources: Any
) -> Any:
    """Call an evaluation function with its context, its event and its resources."""
    arguments: dict[str, Any] = {name: getattr(resources, name) for name in signature.resources}
    names = ((signature.context,) if signature.context else ()) + signature.inputs
    arguments |= dict(zip(names, told, strict=False))
    return fn(**arguments)


def default_name(name: str | None, fallback: str | None, what: str) -> str:
    """The name of a definition: its own, or one derived from its target."""
    found: Any = name or fallback
    if not isinstance(found, str) or not _NAME.fullmatch(found):
        raise Invalid(f"invalid {what} name {found!r}", remedy="use letters, digits and '_'")
    return found
