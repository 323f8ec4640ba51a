"""Metadata: plain values become typed ones, and typed ones come back as they were stored."""

import json
import math
import subprocess
import sys
from datetime import UTC, datetime
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from servo.core.keys import AssetKey
from servo.errors import Corrupt, Invalid
from servo.sdk.metadata.entries import (
    AssetMetadataValue,
    BoolMetadataValue,
    FloatMetadataValue,
    IntMetadataValue,
    JobMetadataValue,
    JsonMetadataValue,
    MarkdownMetadataValue,
    MetadataValue,
    NotebookMetadataValue,
    NullMetadataValue,
    PathMetadataValue,
    PythonArtifactMetadataValue,
    RunMetadataValue,
    TableColumn,
    TableColumnConstraints,
    TableColumnDep,
    TableColumnLineage,
    TableColumnLineageMetadataValue,
    TableConstraints,
    TableMetadataValue,
    TableRecord,
    TableSchema,
    TableSchemaMetadataValue,
    TextMetadataValue,
    TimestampMetadataValue,
    UrlMetadataValue,
    decode_metadata,
    encode_metadata,
    normalize_metadata,
)
from servo.sdk.resources.config import EnvVar

SCHEMA = TableSchema(
    columns=[
        TableColumn(
            "id",
            "int",
            description="the id",
            constraints=TableColumnConstraints(nullable=False, unique=True, other=["> 0"]),
            tags={"pii": ""},
        ),
        TableColumn(name="name"),
    ],
    constraints=TableConstraints(other=["id < name"]),
)
LINEAGE = TableColumnLineage(
    {"id": [TableColumnDep(asset_key="raw/orders", column_name="order_id")], "name": []}
)
AT = datetime(2025, 1, 1, tzinfo=UTC)


# --- plain values ---------------------------------------------------------------------------------


class Whole:
    """A number as numpy's are: without being one of Python's."""

    shape = ()

    def item(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("raw", "typed"),
    [
        ("x", TextMetadataValue("x")),
        (True, BoolMetadataValue(True)),
        (3, IntMetadataValue(3)),
        (10**30, IntMetadataValue(10**30)),
        (0.5, FloatMetadataValue(0.5)),
        (Fraction(1, 2), FloatMetadataValue(0.5)),
        (Whole(), BoolMetadataValue(True)),
        (None, NullMetadataValue()),
        ({"a": [1, {"b": None}]}, JsonMetadataValue({"a": [1, {"b": None}]})),
        ([1, "x"], JsonMetadataValue([1, "x"])),
        ((1, (2,)), JsonMetadataValue([1, [2]])),
        (
            {1: "a", None: math.nan, False: 1},
            JsonMetadataValue({"1": "a", "null": None, "false": 1}),
        ),
        ({"a": Whole()}, JsonMetadataValue({"a": True})),
        (AssetKey(["a", "b"]), AssetMetadataValue(AssetKey(["a", "b"]))),
        (Path("/a/b"), PathMetadataValue("/a/b")),
        (SCHEMA, TableSchemaMetadataValue(SCHEMA)),
        (LINEAGE, TableColumnLineageMetadataValue(LINEAGE)),
        (MetadataValue.md("# x"), MarkdownMetadataValue("# x")),
    ],
)
def test_a_plain_value_becomes_a_typed_one(raw: Any, typed: MetadataValue) -> None:
    assert normalize_metadata({"it": raw}) == {"it": typed}


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (object(), "metadata 'it' has the unsupported type object"),
        (AT, "metadata 'it' has the unsupported type datetime.datetime"),
        ({1, 2}, "metadata 'it' has the unsupported type set"),
        (b"x", "metadata 'it' has the unsupported type bytes"),
        ({"a": [1, {2}]}, "metadata 'it'.a[1] is a set, which JSON cannot hold"),
        ({(1, 2): 3}, "metadata 'it' has the key (1, 2)"),
    ],
)
def test_what_cannot_be_metadata_is_told_by_its_name(raw: Any, why: str) -> None:
    with pytest.raises(Invalid) as told:
        normalize_metadata({"fine": 1, "it": raw})
    assert why in told.value.message
    assert told.value.remedy


def test_a_name_is_a_text() -> None:
    names: Any = {3: "x"}
    with pytest.raises(Invalid, match="has the key 3"):
        normalize_metadata(names)


def test_a_variable_is_shown_by_its_name() -> None:
    assert normalize_metadata({"token": EnvVar("TOKEN")}) == {
        "token": TextMetadataValue("EnvVar('TOKEN')")
    }


# --- constructors ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "typed", "value"),
    [
        (MetadataValue.text("x"), TextMetadataValue(text="x"), "x"),
        (MetadataValue.url("http://x"), UrlMetadataValue(url="http://x"), "http://x"),
        (MetadataValue.path(Path("a/b")), PathMetadataValue(path="a/b"), "a/b"),
        (MetadataValue.notebook("a.ipynb"), NotebookMetadataValue(path="a.ipynb"), "a.ipynb"),
        (MetadataValue.json({"a": 1}), JsonMetadataValue(data={"a": 1}), {"a": 1}),
        (MetadataValue.md("# x"), MarkdownMetadataValue(md_str="# x"), "# x"),
        (MetadataValue.float(1), FloatMetadataValue(value=1.0), 1.0),
        (MetadataValue.int(1), IntMetadataValue(value=1), 1),
        (MetadataValue.bool(True), BoolMetadataValue(value=True), True),
        (MetadataValue.timestamp(1.5), TimestampMetadataValue(value=1.5), 1.5),
        (MetadataValue.timestamp(AT), TimestampMetadataValue(AT.timestamp()), AT.timestamp()),
        (
            MetadataValue.asset("a/b"),
            AssetMetadataValue(AssetKey(["a", "b"])),
            AssetKey(["a", "b"]),
        ),
        (MetadataValue.dagster_run("r"), RunMetadataValue(run_id="r"), "r"),
        (MetadataValue.table_schema(SCHEMA), TableSchemaMetadataValue(schema=SCHEMA), SCHEMA),
        (
            MetadataValue.table_column_lineage(LINEAGE),
            TableColumnLineageMetadataValue(column_lineage=LINEAGE),
            LINEAGE,
        ),
        (MetadataValue.null(), NullMetadataValue(), None),
    ],
)
def test_a_constructor_makes_its_type(
    made: MetadataValue, typed: MetadataValue, value: object
) -> None:
    assert made == typed
    assert type(made) is type(typed)
    assert made.value == value


def test_a_value_of_several_parts_is_its_own_value() -> None:
    artifact = MetadataValue.python_artifact(TableSchema)
    assert artifact == PythonArtifactMetadataValue("servo.sdk.metadata.tables", "TableSchema")
    assert artifact.value is artifact
    job = MetadataValue.job("daily", "here", repository_name="repo")
    assert job.value == JobMetadataValue("daily", "here", "repo")


def test_the_columns_of_a_table_are_those_of_its_first_record() -> None:
    records = [TableRecord({"a": 1, "b": "x", "c": 0.5, "d": True}), TableRecord({"a": None})]
    table = MetadataValue.table(records)
    assert table.schema == TableSchema.from_name_type_dict(
        {"a": "int", "b": "string", "c": "float", "d": "bool"}
    )
    assert MetadataValue.table([], SCHEMA) == TableMetadataValue([], SCHEMA)


def test_options_may_be_spelled_out_as_none() -> None:
    nothing: Any = None
    assert TableColumn("a", constraints=nothing, tags=nothing) == TableColumn("a")
    assert TableSchema([], constraints=nothing) == TableSchema([])
    assert TableColumnConstraints(other=nothing) == TableColumnConstraints()


class BytesPath:
    def __fspath__(self) -> bytes:
        return b"a"


def wrong(value: Any) -> Any:
    """A value of a type that the type checker would refuse."""
    return value


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (
            lambda: MetadataValue.url(wrong(3)),
            "MetadataValue.url got a int; pass a string",
        ),
        (
            lambda: MetadataValue.int(wrong(1.5)),
            "MetadataValue.int got a float; pass a whole",
        ),
        (lambda: MetadataValue.float(wrong("1")), "MetadataValue.float got a str"),
        (
            lambda: MetadataValue.bool(wrong(1)),
            "MetadataValue.bool got a int; pass True or",
        ),
        (lambda: MetadataValue.json({"a": object()}), "MetadataValue.json.a is a object"),
        (lambda: MetadataValue.timestamp(AT.replace(tzinfo=None)), "has no time zone"),
        (lambda: MetadataValue.table([]), "pass schema="),
        (lambda: MetadataValue.path(BytesPath()), "is not a string; decode it first"),
        (lambda: MetadataValue.asset(3), "MetadataValue.asset: 3 does not name an asset"),
        (lambda: TableRecord(wrong({"a": [1]})), "TableRecord: the column 'a' holds a list"),
        (lambda: TableRecord(wrong({"a": object()})), "TableRecord.a is a object"),
    ],
)
def test_a_constructor_refuses_what_it_cannot_hold(make: Any, why: str) -> None:
    with pytest.raises(Invalid) as told:
        make()
    assert why in str(told.value)


# --- stored ---------------------------------------------------------------------------------------


def test_the_stored_form_is_stable() -> None:
    metadata = {
        "rows": 12,
        "share": 0.5,
        "odd": math.inf,
        "asset": AssetKey(["raw", "orders"]),
        "lineage": LINEAGE,
        "table": MetadataValue.table([TableRecord({"a": 1, "b": math.nan})]),
        "job": MetadataValue.job("daily"),
        "nothing": None,
        "größe": "✓",
    }
    assert encode_metadata(metadata) == (
        '{"rows":{"type":"int","value":12},'
        '"share":{"type":"float","value":0.5},'
        '"odd":{"type":"float","value":"inf"},'
        '"asset":{"type":"asset","value":"raw/orders"},'
        '"lineage":{"type":"table_column_lineage","value":'
        '{"id":[{"asset_key":"raw/orders","column_name":"order_id"}],"name":[]}},'
        '"table":{"type":"table","value":{"records":[{"a":1,"b":null}],"schema":{"columns":['
        '{"name":"a","type":"int","description":null,'
        '"constraints":{"nullable":true,"unique":false,"other":[]},"tags":{}},'
        '{"name":"b","type":"string","description":null,'
        '"constraints":{"nullable":true,"unique":false,"other":[]},"tags":{}}],'
        '"constraints":{"other":[]}}}},'
        '"job":{"type":"job","value":'
        '{"job_name":"daily","location_name":"","repository_name":null}},'
        '"nothing":{"type":"null","value":null},'
        '"größe":{"type":"text","value":"✓"}}'
    )


def test_no_metadata_is_an_empty_text() -> None:
    assert encode_metadata({}) == ""
    assert decode_metadata("") == decode_metadata("{}") == {}


def lineage(deps: dict[str, list[TableColumnDep]]) -> MetadataValue:
    return MetadataValue.table_column_lineage(TableColumnLineage(deps))


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
columns = st.builds(
    TableColumn,
    st.text(),
    st.text(),
    st.none() | st.text(),
    st.builds(
        TableColumnConstraints, st.booleans(), st.booleans(), st.lists(st.text(), max_size=2)
    ),
    st.dictionaries(st.text(), st.text(), max_size=2),
)
schemas = st.builds(
    TableSchema,
    st.lists(columns, max_size=3),
    st.builds(TableConstraints, st.lists(st.text(), max_size=2)),
)
keys = st.lists(st.from_regex(r"[a-z_]{1,8}", fullmatch=True), min_size=1, max_size=3)
values = st.one_of(
    st.builds(MetadataValue.text, st.text(st.characters())),
    st.builds(MetadataValue.url, st.text()),
    st.builds(MetadataValue.path, st.text()),
    st.builds(MetadataValue.notebook, st.text()),
    st.builds(MetadataValue.json, trees),
    st.builds(MetadataValue.md, st.text()),
    st.builds(PythonArtifactMetadataValue, st.text(), st.text()),
    st.builds(MetadataValue.float, st.floats(allow_nan=False)),
    st.builds(MetadataValue.int, st.integers()),
    st.builds(MetadataValue.bool, st.booleans()),
    st.builds(MetadataValue.timestamp, st.floats(0, 4e9) | st.datetimes(timezones=st.just(UTC))),
    st.builds(MetadataValue.asset, keys),
    st.builds(JobMetadataValue, st.text(), st.text(), st.none() | st.text()),
    st.builds(MetadataValue.dagster_run, st.text()),
    st.builds(
        TableMetadataValue,
        st.lists(st.builds(TableRecord, st.dictionaries(st.text(), scalars)), max_size=2),
        schemas,
    ),
    st.builds(MetadataValue.table_schema, schemas),
    st.builds(
        lineage,
        st.dictionaries(
            st.text(), st.lists(st.builds(TableColumnDep, keys, st.text()), max_size=2), max_size=2
        ),
    ),
    st.just(MetadataValue.null()),
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_what_is_stored_comes_back_as_it_was(metadata: dict[str, MetadataValue]) -> None:
    text = encode_metadata(metadata)
    back = decode_metadata(text)
    assert back == metadata
    assert list(back) == list(metadata)
    assert [type(value) for value in back.values()] == [type(v) for v in metadata.values()]
    assert encode_metadata(back) == text
    _ = text.encode()


def test_a_number_that_is_none_comes_back() -> None:
    back = decode_metadata(encode_metadata({"a": math.nan, "b": -math.inf}))
    assert math.isnan(back["a"].value)
    assert back["b"].value == -math.inf


def test_half_a_character_comes_back() -> None:
    text = encode_metadata({"a": "x\ud800"})
    assert text.isascii()
    assert decode_metadata(text)["a"].value == "x\ud800"


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "3",
        '{"a":3}',
        '{"a":{"type":"colour","value":1}}',
        '{"a":{"type":"int"}}',
        '{"a":{"type":"float","value":"x"}}',
        '{"a":{"type":"job","value":{}}}',
        '{"a":{"type":"table","value":[]}}',
        '{"a":{"type":"asset","value":"a:b"}}',
        '{"a":{"type":"table_column_lineage","value":{"c":[{"x":1}]}}}',
    ],
)
def test_what_is_no_stored_form_is_corrupt(text: str) -> None:
    with pytest.raises(Corrupt, match="stored metadata cannot be read") as told:
        decode_metadata(text)
    assert told.value.remedy


def test_every_type_has_a_stored_form_of_its_own() -> None:
    kinds = [kind.kind for kind in MetadataValue.__subclasses__()]
    assert len(set(kinds)) == len(kinds) == 18
    assert "" not in kinds


# --- cost -----------------------------------------------------------------------------------------


def test_importing_these_modules_imports_nothing_heavy() -> None:
    program = (
        "import json, sys\n"
        "import servo.sdk.metadata.entries\n"
        "light = 'pydantic' not in sys.modules\n"
        "import servo.sdk.resources.config, servo.sdk.resources.resources\n"
        "import servo.sdk.resources.io_manager\n"
        "heavy = {'pyarrow', 'duckdb', 'obstore', 'numpy', 'pandas', 'asyncio', 'rich', 'click'}\n"
        "print(json.dumps([light, sorted(heavy & set(sys.modules))]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == [True, []]
