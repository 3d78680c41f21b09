"""Hive keys: from the names of folders, typed over all files, as polars and pyarrow read them."""

from __future__ import annotations

import datetime as dt

import pyarrow.dataset as pads
import pytest
from dataset.folders import put
from helpers import optional
from hypothesis import given, strategies as st

import arrowipc as ipc
from arrowipc import types as at
from arrowipc.dataset.partitioning import NULL, key_type, keys_of
from arrowipc.errors import UsageError
from arrowipc.sources.files import is_hidden

pl = optional("polars")


def test_keys_are_columns_as_in_polars(tmp_path):
    put(tmp_path / "year=2024/month=01/day=2024-01-31/who=a%20b%2Fc/0.arrow", {"x": [1, 2]})
    put(tmp_path / "year=2023/month=12/day=2023-12-01/who=__HIVE_DEFAULT_PARTITION__/0.arrow", {"x": [3]})
    dataset = ipc.open_dataset(tmp_path)
    assert [str(kind) for kind in dataset.schema.types] == ["int64", "int64", "int64", "date32[day]", "string"]
    assert dataset.read_all().to_pylist() == [
        {"x": 3, "year": 2023, "month": 12, "day": dt.date(2023, 12, 1), "who": None},
        {"x": 1, "year": 2024, "month": 1, "day": dt.date(2024, 1, 31), "who": "a b/c"},
        {"x": 2, "year": 2024, "month": 1, "day": dt.date(2024, 1, 31), "who": "a b/c"},
    ]
    columns = ["x", "year", "month", "day"]
    theirs = pl.scan_ipc(tmp_path, hive_partitioning=True).select(columns).collect()
    assert dataset.select(columns).read_all().to_polars().equals(theirs)
    table = pads.dataset(tmp_path, format="ipc", partitioning="hive").to_table()
    assert dataset.read_all().to_pydict()["who"] == table["who"].to_pylist()
    assert dataset.fragments[0].keys["year"] == 2023


NAMES = st.text(min_size=1) | st.sampled_from(
    ["._COPYING_", ".", "..", "_x", "%2E", "a=b", "a/b", "{}", "x y", "é", "e\u0301"]
)


ESCAPED = {ord(char): f"%{ord(char):02X}" for char in [*map(chr, range(0x20)), *"\"#%'*/:=?\\\x7f{[]^"]}


def folder_name(name: str, text: str | None) -> str:
    """The name of a folder for a key and the text of its value, as Spark spells it; no text and None are null."""
    folder = f"{name.translate(ESCAPED)}={text.translate(ESCAPED) if text else NULL}"
    folder = f"%2E{folder[1:]}" if folder.startswith(".") else folder
    return f"{folder[:-1]}%5F" if folder.endswith("._COPYING_") else folder


@given(NAMES, NAMES | st.none())
def test_a_key_comes_back_from_the_name_of_its_folder(name, text):
    if NULL in (name, text):
        return
    folder = folder_name(name, text)
    assert "/" not in folder
    assert "\0" not in folder
    assert not is_hidden(folder)
    assert keys_of(folder, f"{folder}/0.arrow") == {name: text}


def test_where_keys_come_from(tmp_path):
    below = put(tmp_path / "a=1/b=2/0.arrow", {"x": [1]})
    assert ipc.open_dataset(tmp_path / "a=1").schema.names == ["x", "b"]  # below what was named
    assert ipc.open_dataset(f"{tmp_path}/a=*/*/0.arrow").schema.names == ["x", "a", "b"]
    assert ipc.open_dataset([below]).schema.names == ["x", "a", "b"]  # files one by one: all of the path
    assert ipc.open_dataset(tmp_path, partitioning=None).schema.names == ["x"]
    assert ipc.open_dataset(tmp_path, columns=["b", "x"]).head().to_pylist() == [{"b": 2, "x": 1}]


def test_a_key_takes_the_place_of_a_column(tmp_path):
    put(tmp_path / "x=7/0.arrow", {"x": ["file"], "y": [1]})
    put(tmp_path / "x=8/0.arrow", {"y": [2]})
    assert ipc.open_dataset(tmp_path).read_all().to_pylist() == [{"y": 1, "x": 7}, {"y": 2, "x": 8}]


def test_a_schema_says_the_type_of_keys(tmp_path):
    put(tmp_path / "code=007/0.arrow", {"x": [1]})
    put(tmp_path / "0.arrow", {"x": [2]})
    assert ipc.open_dataset(tmp_path).read_all().to_pydict()["code"] == [None, 7]
    schema = at.schema([("code", at.large_utf8()), ("x", at.int64())])
    assert ipc.open_dataset(tmp_path, schema=schema).read_all().to_pylist() == [
        {"code": None, "x": 2},
        {"code": "007", "x": 1},
    ]
    for kind in (at.date32(), at.bool_(), at.list_(at.int8())):
        with pytest.raises(UsageError, match=r"'code' is ('007'|None), which is no"):
            ipc.open_dataset(tmp_path, schema=at.schema([("code", kind)]))


def test_types_of_keys():
    assert key_type(["1", None, "-02"]) == at.int64()
    assert key_type(["1", str(2**63)]) == at.utf8()
    assert key_type(["2024-02-29", "2023-01-01"]) == at.date32()
    assert key_type(["2023-02-29"]) == at.utf8()
    assert key_type(["1", "x"]) == key_type([None]) == key_type([""]) == key_type(["٣"]) == at.utf8()


def test_bad_keys():
    assert keys_of("p", "/=1/x/a=/f.arrow") == {"a": ""}
    with pytest.raises(UsageError, match="p: the key 'a' repeats"):
        keys_of("p", "/a=1/a=2/f.arrow")
    with pytest.raises(UsageError, match="more than 64"):
        keys_of("p", "/".join(f"k{i}=1" for i in range(65)) + "/f.arrow")
    with pytest.raises(UsageError, match="cannot be encoded as UTF-8"):
        keys_of("p", "a=\udcff/f.arrow")
