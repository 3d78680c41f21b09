"""The keywords of readers and writers are defined in `arrowipc.options`: nobody who takes them says anything else."""

import ast
import inspect
import pickle
from pathlib import Path
from typing import Any

import pytest

import arrowipc as ipc
from arrowipc import options, types
from arrowipc.dissociated import Channel, connect

PACKAGE = Path(ipc.__file__).parent
#: Who takes the keywords of which class, besides own ones.
TAKEN: dict[Any, type[options.Options]] = {
    **dict.fromkeys((ipc.open, ipc.open_file, ipc.open_stream, ipc.recover), options.ReadOptions),
    **dict.fromkeys((ipc.aio.open_file, ipc.aio.open_stream, connect), options.DecodeOptions),
    **dict.fromkeys((ipc.new_stream, ipc.new_file, ipc.aio.encode), options.WriteOptions),
    ipc.get_record_batch_size: options.MessageOptions,
}
#: The same of those that refer to another one for what these mean.
REFERRING: dict[Any, type[options.Options]] = {
    ipc.RecordBatchFileReader: options.ReadOptions,
    ipc.RecordBatchStreamReader: options.ReadOptions,
    ipc.IndexedStreamReader: options.ReadOptions,
    ipc.RecordBatchFileWriter: options.WriteOptions,
    ipc.RecordBatchStreamWriter: options.WriteOptions,
    Channel.read: options.DecodeOptions,
    ipc.StreamDecoder: options.DecodeOptions,
    ipc.encode_payloads: options.MessageOptions,
}


def fields(tree: ast.AST) -> dict[str, dict[str, str]]:
    """The annotated names of all classes in a tree."""
    return {
        each.name: {
            line.target.id: ast.unparse(line.annotation)
            for line in each.body
            if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
        }
        for each in ast.walk(tree)
        if isinstance(each, ast.ClassDef)
    }


def test_type_checkers_see_what_the_classes_say():
    seen = fields(ast.parse((PACKAGE / "options.py").read_text()))
    for name in ("Decode", "Read", "Message"):
        assert seen[f"{name}Keywords"] == seen[f"{name}Options"]
    told_before = seen["MessageOptions"].keys()  # with other defaults
    assert seen["WriteKeywords"].keys() == seen["WriteOptions"].keys() - told_before
    assert seen["WriteKeywords"].items() <= seen["WriteOptions"].items()


@pytest.mark.parametrize("function", [*TAKEN, *REFERRING], ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_signatures_name_every_keyword_with_its_default(function):
    kind = (TAKEN | REFERRING)[function]
    found = inspect.signature(function).parameters
    assert {name: found[name].default for name in kind.defaults} == kind.defaults
    assert not any(each.kind is each.VAR_KEYWORD for each in found.values())
    if isinstance(function, type) or not hasattr(function, "__annotations__") or function is ipc.encode_payloads:
        return
    assert {name: str(found[name].annotation) for name in kind.types} == kind.types


@pytest.mark.parametrize("function", TAKEN, ids=lambda each: f"{each.__module__}.{each.__qualname__}")
def test_help_says_what_every_keyword_means(function):
    text = inspect.getdoc(function)
    for name, entry in TAKEN[function].documentation.items():
        assert entry.startswith(f"{name} : ")
        assert entry in text
    assert "**keywords" not in text


ROWS = ipc.table({"x": [1]})
MEANT = r"unexpected keyword argument .*: did you mean"
GUESSES = [
    (lambda: ipc.open(b"", colums=["x"]), f"{MEANT} 'columns'"),
    (lambda: ipc.aio.open_stream(b"", use_thread=True), f"{MEANT} 'use_threads'"),
    (
        lambda: ipc.aio.open_stream(b"", memory_map=True),
        "unexpected keyword argument 'memory_map': there are columns, ",
    ),
    (lambda: ipc.new_stream(bytearray(), alignement=8), f"{MEANT} 'alignment'"),
    (lambda: ipc.get_record_batch_size(None, compresion=None), f"{MEANT} 'compression'"),
    (lambda: ipc.open_dataset("x", filters=[]), r"^open_dataset\(\) .*'filters': filter=\.\.\.$"),
    (lambda: ipc.open_dataset("x", worker=1), r"^open_dataset\(\) .*: did you mean 'workers'"),
    (lambda: ipc.decode_payloads([], errors="skip"), r"^decode_payloads\(\) .*'errors': on_error=\.\.\.$"),
    (lambda: ipc.encode_payloads(ROWS, by="x"), r"'by': group_by=\.\.\.$"),
    (lambda: ipc.validate("x", full=True), r"^validate\(\) .*'full': level=\.\.\.$"),
    (lambda: ipc.array([1], dtype="int8"), r"^array\(\) .*'dtype': type=\.\.\.$"),
    (lambda: ipc.RowStream("x", num_shards=2), r"^RowStream\(\) .*'num_shards': world_size=\.\.\.$"),
    (lambda: ipc.RowDataset("x", shuffle=True), r"^RowDataset\(\) .*'shuffle': torch\.utils\.data\.DataLoader"),
    (lambda: ROWS.sort_by("x", descending=True), r"^sort_by\(\) .*: .*sort_by\(\[\(\"x\", \"descending\"\)"),
    (lambda: ROWS.rename(mapping={}), r"^rename\(\) .*'mapping': names=\.\.\.$"),
    (lambda: ROWS["x"].cast(dtype="int8"), r"^cast\(\) .*'dtype': type=\.\.\.$"),
    (lambda: ipc.new_file("x", codec="lz4"), r"'codec': compression=\.\.\.$"),
    (lambda: ipc.Table.from_arrays(columns=[], names=[]), r"^from_arrays\(\) .*'columns': arrays=\.\.\.$"),
    (lambda: types.timestamp("us", timezone="UTC"), r"^timestamp\(\) .*'timezone': tz=\.\.\.$"),
    (lambda: ipc.StreamDecoder(validation="none"), r"^StreamDecoder\(\) .*'validation': did you mean 'validate'"),
    (lambda: ipc.write(ROWS, "x", mode="a"), r"'mode': .* append=True"),
    (lambda: ipc.validate("x", nonsense=1), r"^validate\(\) .*'nonsense': there are source, level, "),
    (lambda: ROWS.to_pandas(nonsense=1), r"^to_pandas\(\) got an unexpected keyword argument 'nonsense'"),
]


@pytest.mark.parametrize(("call", "words"), GUESSES)
def test_a_first_guess_is_answered_with_what_there_is(call, words):
    with pytest.raises(TypeError, match=words):
        call()


FUNCTIONS = [name for name in ipc.__all__ if callable(found := getattr(ipc, name)) and not isinstance(found, type)]
FACTORIES = [name for name in types.__all__ if hasattr(getattr(types, name), "__wrapped__")]


@pytest.mark.parametrize("name", sorted({*FUNCTIONS, *FACTORIES} - {*ipc._PER_MESSAGE}))
def test_every_function_answers_a_keyword_that_it_lacks(name):
    if name == "scan_polars":
        pytest.importorskip("polars")
    function = getattr(ipc, name)
    assert pickle.loads(pickle.dumps(function)) is function
    needed = [each for each in inspect.signature(function).parameters.values() if each.default is each.empty]
    given = [bytes(ROWS.schema.serialize()) for each in needed if each.kind is each.POSITIONAL_OR_KEYWORD]
    with pytest.raises(TypeError, match="unexpected keyword argument 'zzz': there are "):
        function(*given, zzz=1)


def test_errors_from_inside_a_function_are_its_own():
    def fail(x: int, *, y: int = 0) -> None:
        raise TypeError("from inside")

    for call in (lambda: options.with_advice(fail)(1, y=2), lambda: options.with_advice(fail)(1)):
        with pytest.raises(TypeError, match=r"^from inside$"):
            call()
    with pytest.raises(TypeError, match=r"missing 1 required positional argument: 'values'"):
        ipc.array()
