"""What an asset's function returned or yielded, one thing after the other.

A function returns a value, a result that says more, or several of them; or it is a generator that
yields results, or a coroutine. Whatever it is, it comes out here as outputs by asset, results of
checks, reports about other assets, and at most one `Skip`. What it owes and does not give is an
error that says so.
"""

import inspect
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, cast

import msgspec

from servo.core.keys import AssetKey
from servo.sdk.assets.annotations import fits, name_of, told, value_type
from servo.sdk.assets.assets_definition import AssetsDefinition
from servo.sdk.assets.results import (
    AssetMaterialization,
    DataVersion,
    Failure,
    MaterializeResult,
    ObserveResult,
    Output,
    Skip,
)
from servo.sdk.checks.definition import AssetCheckResult


class MadeAsset(msgspec.Struct, frozen=True, kw_only=True):
    """One asset that was made, with its value if it has one."""

    key: AssetKey
    value: Any = msgspec.UNSET
    metadata: dict[str, Any] = {}
    version: DataVersion | None = None


Returned = MadeAsset | AssetCheckResult | AssetMaterialization | Skip

_RESULTS = (MaterializeResult, Output, AssetCheckResult, AssetMaterialization, Skip)


def read_returned(
    maker: AssetsDefinition, chosen: Sequence[AssetKey], returned: Any
) -> Iterator[Returned]:
    """What the function of some assets returned about those that were chosen."""
    if len(maker.specs) == 1 and not _is_several(returned):
        yield from _read(maker, chosen, returned, set())
        return
    made: set[AssetKey] = set()
    checked = False
    for item in _items(maker, chosen, returned):
        if isinstance(item, Skip):
            yield item
            return
        checked = checked or isinstance(item, AssetCheckResult)
        yield from _read(maker, chosen, item, made)
    if checked and not made and len(maker.specs) == 1:
        yield MadeAsset(key=chosen[0])  # what was checked was made
    else:
        yield from _owed(maker, chosen, made, silent=returned is None)


def _is_several(returned: Any) -> bool:
    if isinstance(returned, tuple):
        items = cast("tuple[Any, ...]", returned)
        return bool(items) and all(isinstance(item, _RESULTS) for item in items)
    return (
        inspect.isgenerator(returned)
        or inspect.iscoroutine(returned)
        or inspect.isasyncgen(returned)
    )


def _items(maker: AssetsDefinition, chosen: Sequence[AssetKey], returned: Any) -> Iterable[Any]:
    if inspect.iscoroutine(returned) or inspect.isasyncgen(returned):
        found = _awaited(returned)
        return found if inspect.isasyncgen(returned) else _items(maker, chosen, found)
    if inspect.isgenerator(returned):
        return cast("Iterable[Any]", returned)
    if _is_several(returned):
        return cast("tuple[Any, ...]", returned)
    if len(maker.specs) == 1 or isinstance(returned, _RESULTS):
        return (cast("Any", returned),)
    if returned is None and not maker.behaviour.returns_values:
        return ()
    return _by_position(maker, chosen, returned)


def _by_position(
    maker: AssetsDefinition, chosen: Sequence[AssetKey], returned: Any
) -> Iterable[Any]:
    """Values in the order of the outputs they are for."""
    names = [name for name, key in maker.keys_by_output_name.items() if key in chosen]
    values = cast("tuple[Any, ...]", returned) if isinstance(returned, tuple) else (returned,)
    if len(values) != len(names):
        raise Failure(
            f"{maker.name} returned {len(values)} values for {len(names)} assets"
            f" ({', '.join(names)})",
            allow_retries=False,
        )
    return [
        value if isinstance(value, _RESULTS) else Output(value, name)
        for name, value in zip(names, values, strict=True)
    ]


def _read(
    maker: AssetsDefinition, chosen: Sequence[AssetKey], item: Any, made: set[AssetKey]
) -> Iterator[Returned]:
    """One thing that was returned or yielded."""
    if isinstance(item, Output):
        output = cast("Output[Any]", item)
        found = _made(_named(maker, output), output)
    elif isinstance(item, MaterializeResult):
        result = cast("MaterializeResult[Any]", item)
        key = _keyed(maker, result)
        for check in result.check_results:
            yield check if check.asset_key else msgspec.structs.replace(check, asset_key=key)
        found = _made(key, result)
    elif isinstance(item, AssetCheckResult | AssetMaterialization | Skip):
        yield item
        return
    elif len(maker.specs) == 1 and not made:
        found = MadeAsset(key=chosen[0], value=item)
    else:
        raise Failure(
            f"{maker.name} yielded a {type(item).__name__}: yield Output or MaterializeResult",
            allow_retries=False,
        )
    if found.key in made:
        raise Failure(f"{maker.name} returned {found.key} twice", allow_retries=False)
    if found.key not in chosen:
        raise Failure(
            f"{maker.name} returned {found.key}, which was not selected:"
            " see context.selected_asset_keys",
            allow_retries=False,
        )
    made.add(found.key)
    if len(maker.specs) == 1 and found.value is not msgspec.UNSET:
        _check_type(maker, found.value)
    yield found


def _check_type(maker: AssetsDefinition, value: Any) -> None:
    """`Failure` if a value is not what the function says it returns."""
    said = value_type(maker.signature.returns)
    if not fits(value, said):
        raise Failure(
            f"{maker.name} returned {told(value)}, but its annotation says -> {name_of(said)}:"
            " return that type, or correct the annotation",
            allow_retries=False,
        )


def _made(key: AssetKey, told: "Output[Any] | MaterializeResult[Any]") -> MadeAsset:
    metadata = dict(told.metadata or {})
    return MadeAsset(key=key, value=told.value, metadata=metadata, version=told.data_version)


def _named(maker: AssetsDefinition, output: "Output[Any]") -> AssetKey:
    """The asset that an output of this name is of."""
    if len(maker.specs) == 1:
        return maker.key
    key = maker.keys_by_output_name.get(output.output_name)
    if key is None:
        names = ", ".join(maker.keys_by_output_name)
        raise Failure(
            f"{maker.name} has no output {output.output_name!r}, it has {names}",
            allow_retries=False,
        )
    return key


def _keyed(maker: AssetsDefinition, result: "MaterializeResult[Any]") -> AssetKey:
    """The asset that a result is about."""
    if result.asset_key is None:
        if len(maker.specs) == 1:
            return maker.key
        raise Failure(
            f"{maker.name} defines several assets: give each MaterializeResult its asset_key",
            allow_retries=False,
        )
    if result.asset_key not in maker.keys:
        raise Failure(f"{maker.name} does not define {result.asset_key}", allow_retries=False)
    return result.asset_key


def _owed(
    maker: AssetsDefinition, chosen: Sequence[AssetKey], made: set[AssetKey], *, silent: bool
) -> Iterator[MadeAsset]:
    """What a function that said nothing has made; an error if it owes something."""
    specs = {spec.key: spec for spec in maker.specs}
    optional = not maker.behaviour.output_required
    missing = [key for key in chosen if key not in made]
    owed = [key for key in missing if not specs[key].skippable and not optional]
    if silent and not made and not maker.behaviour.returns_values:
        for key in missing:
            yield MadeAsset(key=key)
    elif owed:
        names = ", ".join(str(key) for key in owed)
        raise Failure(f"{maker.name} returned nothing for {names}", allow_retries=False)


def read_observed(maker: AssetsDefinition, returned: Any) -> ObserveResult:
    """What the function of an observable asset returned."""
    found = _awaited(returned) if inspect.iscoroutine(returned) else returned
    if isinstance(found, DataVersion):
        return ObserveResult(data_version=found)
    if isinstance(found, ObserveResult):
        return found
    raise Failure(
        f"{maker.name} returned a {type(found).__name__}: return DataVersion or ObserveResult",
        allow_retries=False,
    )


# --- coroutines -----------------------------------------------------------------------------------


def _awaited(started: Any) -> Any:
    """The result of a coroutine, or everything an asynchronous generator yields."""
    work: Coroutine[Any, Any, Any] = started
    if inspect.isasyncgen(started):
        work = _collected(cast("AsyncIterator[Any]", started))
    asyncio = import_module("asyncio")  # takes its time, and few assets are coroutines
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    return _elsewhere(lambda: asyncio.run(work))


async def _collected(started: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in started]


def _elsewhere(call: Callable[[], Any]) -> Any:
    """The result of a call on a thread of its own: this one has a loop that runs, a notebook's."""
    found: list[Any] = []
    raised: list[BaseException] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            raised.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return found[0]
