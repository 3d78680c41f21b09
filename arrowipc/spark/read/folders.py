"""Which of the files that were found are read, and what their folders say: hive keys, typed as Spark types them."""

import re
from collections.abc import Iterable, Iterator, Mapping
from os.path import dirname
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import types as st

from arrowipc import types as at
from arrowipc.dataset.partitioning import MOST_KEYS, key_type, key_value, keys_of
from arrowipc.errors import UsageError
from arrowipc.read.files import FoundFile
from arrowipc.schema import Schema
from arrowipc.spark.types import arrow_type_of, as_schema, index_of

if TYPE_CHECKING:
    from arrowipc.spark.options import ReadOptions

__all__ = ["chosen_files", "key_fields", "typed_key"]

_REAL = re.compile(r"[+-]?[0-9]*\.[0-9]+|-?[0-9]{1,9}")
_INT = range(-(2**31), 2**31)


def chosen_files(files: Iterable[FoundFile], root: str | None, options: "ReadOptions") -> Iterator[FoundFile]:
    """The files that `options` let be read, keys below `root` if it is given; ``below`` is empty where none is."""
    for file in files:
        # Spark compares with milliseconds.
        time = file.modified // 1000 * 1000
        if options.modified_after is not None and time <= options.modified_after:
            continue
        if options.modified_before is not None and time >= options.modified_before:
            continue
        below = file.below
        if root is not None:
            if not file.path.startswith(root.rstrip("/") + "/"):
                raise UsageError(f"option basePath: {file.path} is not below {root}")
            below = file.path[len(root.rstrip("/")) + 1 :]
        if options.recursive is False and not all("=" in part for part in below.split("/")[:-1]):
            continue
        below = "" if options.recursive else below
        yield file if below == file.below else file._replace(below=below)


def key_fields(files: Iterable[FoundFile]) -> list[st.StructField]:
    """The columns that the folders of all files are: int, bigint, double, date, string or void, as Spark infers them.

    Spark also infers timestamps, in a time zone that it does not tell, and decimals (``1e5``): here these are strings.
    """
    folders = dict.fromkeys((dirname(file.path), dirname(file.below)) for file in files if "=" in file.below)
    texts: dict[str, set[str | None]] = {}
    for path, below in folders:
        for name, text in keys_of(path, below + "/").items():
            known = index_of(name, [*texts])
            texts.setdefault(name if known is None else [*texts][known], set()).add(text)
        if len(texts) > MOST_KEYS:
            raise UsageError(f"{path} and others: the folders have more than {MOST_KEYS} keys together")
    return [st.StructField(name, _key_type(found)) for name, found in texts.items()]


def _key_type(texts: set[str | None]) -> st.DataType:
    known = [text for text in texts if text is not None]
    if not known:
        return st.NullType()
    match key_type(known):
        case at.Int():
            return st.IntegerType() if all(int(text) in _INT for text in known) else st.LongType()
        case at.Date():
            return st.DateType()
    return st.DoubleType() if all(map(_REAL.fullmatch, known)) else st.StringType()


def typed_key(path: str, keys: Mapping[str, str | None], field: st.StructField) -> Any:
    """The value of a column that is a key, a scalar of the Arrow type that Spark expects; None where it is null."""
    name = [*keys][index_of(field.name, [*keys]) or 0]
    if keys[name] is None:
        if not field.nullable:
            raise UsageError(f"{path}: the key {name!r} is null, and the schema says that it has no nulls")
        return None
    if isinstance(field.dataType, st.TimestampType):
        raise UsageError(
            f"{path}: the key {name!r} is to be a timestamp, and Spark does not say in which time zone its text is; "
            "ask for a string or timestamp_ntz, and convert it in Spark"
        )
    type_ = arrow_type_of(field.dataType, field.name)
    schema: Schema = as_schema(pa.schema([("key", type_)]))
    try:
        return pa.scalar(key_value(path, name, keys[name], schema[0].type), type_)
    except (pa.ArrowInvalid, OverflowError):
        kind = field.dataType.simpleString()
        raise UsageError(f"{path}: the key {name!r} is {keys[name]!r}, too large for {kind}") from None
