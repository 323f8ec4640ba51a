"""No field of an answer, or of a result, lets a secret through unless it is listed as Servo's own.

The fields are derived from the types of the messages, so that a new one cannot be forgotten.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, get_args

import msgspec
import pytest
from msgspec import inspect

from servo.code.evaluator.messages import BackfillPlanned, EvaluatorAnswer
from servo.code.evaluator.redacted_answers import ANSWER_RULES, redacted_answer
from servo.code.examine import Examined
from servo.core.automation.trees import Tree
from servo.leader.assignments import TaskResult
from servo.sdk.metadata.entries import decode_metadata, encode_metadata
from servo.sdk.resources.redaction import Redaction
from servo.sdk.resources.struct_redaction import keep, redact, redact_values

CANARY = "canary-in-the-mine"
ANSWERS: tuple[type[msgspec.Struct], ...] = get_args(EvaluatorAnswer)
KNOWN = Redaction()
KNOWN.add(CANARY)

# Fields that hold an encoding of their own, each with the canary in it.
ENCODED = {
    "metadata": encode_metadata({CANARY: CANARY}),
    "tree": msgspec.json.encode(Tree(label=CANARY, kind="k")).decode(),
}


def structs_in(kind: inspect.Type) -> Iterator[inspect.StructType]:
    """The types of structs that a field holds, directly or in a collection."""
    match kind:
        case inspect.StructType():
            yield kind
        case inspect.UnionType():
            for one in kind.types:
                yield from structs_in(one)
        case inspect.VarTupleType() | inspect.ListType():
            yield from structs_in(kind.item_type)
        case inspect.DictType():
            yield from structs_in(kind.value_type)
        case _:
            return


def reachable(*roots: type[Any]) -> list[inspect.StructType]:
    """The types of all structs that these can hold."""
    found: dict[type[Any], inspect.StructType] = {}
    waiting = [one for root in roots for one in structs_in(inspect.type_info(root))]
    while waiting:
        one = waiting.pop()
        if one.cls not in found:
            found[one.cls] = one
            waiting += [inner for field in one.fields for inner in structs_in(field.type)]
    return sorted(found.values(), key=lambda one: one.cls.__name__)


def sample(kind: inspect.Type, text: str, seen: tuple[type[Any], ...] = ()) -> Any:
    """A value of a type with this text wherever it can hold one."""
    match kind:
        case inspect.UnionType():
            found = sample(next(t for t in kind.types if fits(t)), text, seen)
        case inspect.VarTupleType():
            kinds = kind.item_type
            each = kinds.types if isinstance(kinds, inspect.UnionType) else (kinds,)
            found = tuple(sample(t, text, seen) for t in each if of(t) not in seen)
        case inspect.DictType():
            found = {text: sample(kind.value_type, text, seen)}
        case inspect.StructType():
            found = kind.cls(**{f.name: value(kind.cls, f, text, seen) for f in kind.fields})
        case _:
            found = single(kind, text)
    return found


def single(kind: inspect.Type, text: str) -> Any:
    match kind:
        case inspect.StrType() | inspect.AnyType():
            found = text
        case inspect.LiteralType():
            found = kind.values[0]
        case inspect.EnumType():
            found = next(iter(kind.cls))
        case inspect.IntType():
            found = 1
        case inspect.BoolType():
            found = True
        case inspect.DateTimeType():
            found = datetime(2025, 1, 1, tzinfo=UTC)
        case _:
            raise AssertionError(f"no sample of {kind}: teach the redaction this type, then this")
    return found


def value(
    owner: type[Any], field: inspect.Field, text: str, seen: tuple[type[Any], ...] = ()
) -> Any:
    if ANSWER_RULES.get(owner, {}).get(field.name) is keep:
        text = "own"
    return anything(owner, field, text, seen)


def anything(
    owner: type[Any], field: inspect.Field, text: str, seen: tuple[type[Any], ...] = ()
) -> Any:
    if field.name in ENCODED and text == CANARY and isinstance(field.type, inspect.StrType):
        return ENCODED[field.name]
    if ANSWER_RULES.get(owner, {}).get(field.name) is redact_values:
        return {"name": text}
    return sample(field.type, text, (*seen, owner))


def fits(kind: inspect.Type) -> bool:
    return not isinstance(kind, inspect.NoneType)


def of(kind: inspect.Type) -> type[Any] | None:
    return kind.cls if isinstance(kind, inspect.StructType) else None


def encoded(given: Any) -> bytes:
    return msgspec.msgpack.encode(given)


@pytest.mark.parametrize("answer", [*ANSWERS, TaskResult], ids=lambda kind: kind.__name__)
def test_a_secret_in_every_field_of_an_answer_is_redacted(answer: type[msgspec.Struct]) -> None:
    full = sample(inspect.type_info(answer), CANARY)
    assert (CANARY.encode() in encoded(full)) is (answer is not BackfillPlanned)  # only keys
    cleaned = redact(full, KNOWN, ANSWER_RULES)
    assert CANARY.encode() not in encoded(cleaned)
    _ = msgspec.msgpack.decode(encoded(cleaned), type=answer)


@pytest.mark.parametrize(
    "kind", reachable(*ANSWERS, TaskResult), ids=lambda kind: kind.cls.__name__
)
def test_only_listed_fields_of_a_struct_are_kept(kind: inspect.StructType) -> None:
    rules = ANSWER_RULES.get(kind.cls, {})
    survive: set[str] = set()
    for field in kind.fields:
        given = anything(kind.cls, field, CANARY)
        others = {f.name: value(kind.cls, f, "own") for f in kind.fields if f.required}
        before = kind.cls(**{**others, field.name: given})
        after = redact(before, KNOWN, ANSWER_RULES)
        if CANARY.encode() in encoded(getattr(after, field.name)):
            survive.add(field.name)
    assert survive == {name for name, treatment in rules.items() if treatment is keep}


def test_every_rule_is_for_a_field_that_exists() -> None:
    for kind, rules in ANSWER_RULES.items():
        assert not set(rules) - set(kind.__struct_fields__), kind


def test_no_kept_field_holds_structs() -> None:
    kept = [
        (one.cls.__name__, field.name)
        for one in reachable(*ANSWERS, TaskResult, Examined)
        for field in one.fields
        if ANSWER_RULES.get(one.cls, {}).get(field.name) is keep and [*structs_in(field.type)]
    ]
    assert kept == []


def test_redacted_metadata_can_be_read() -> None:
    report = {"asset_key": "a", "materialization_id": "m", "metadata": ENCODED["metadata"]}
    events = [{"type": "AssetReported", "v": 1, **report}]
    answer = msgspec.convert({"type": "evaluated", "reported": events}, type=EvaluatorAnswer)
    cleaned: Any = redacted_answer(answer, KNOWN)
    assert [*decode_metadata(cleaned.reported[0].metadata)] == ["***"]


def test_numbers_of_a_stored_tree_are_kept() -> None:
    known = Redaction()
    known.add("5432")
    tree = Tree(label="port 5432", kind="k", true=5432, of=5432)
    event = {
        "type": "AutomationEvaluated",
        "sensor_id": "s",
        "tick": 5432,
        "asset_key": "a",
        "tree": msgspec.json.encode(tree).decode(),
    }
    answer = msgspec.convert({"type": "judged", "ticked": [event]}, type=EvaluatorAnswer)
    cleaned: Any = redacted_answer(answer, known)
    redacted = msgspec.json.decode(cleaned.ticked[0].tree, type=Tree)
    assert redacted == Tree(label="port ***", kind="k", true=5432, of=5432)
