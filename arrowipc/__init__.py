"""Arrow IPC for Python: compiled kernels read streams, files and messages, and export them without a copy.

Names load when they are first used, so that ``import arrowipc`` stays cheap on Spark executors.

Examples
--------
>>> import pyarrow as pa
>>> import arrowipc as ipc
>>> sink = pa.BufferOutputStream()
>>> with pa.ipc.new_stream(sink, pa.schema([("x", pa.int64())])) as writer:
...     writer.write_batch(pa.record_batch({"x": [1, 2, 3]}))
>>> with ipc.open_stream(sink.getvalue()) as reader:
...     for batch in reader:
...         print(batch.to_pydict())
{'x': [1, 2, 3]}
"""

# `importlib.machinery` has these names too, but importing it loads more packages.
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import EXTENSION_SUFFIXES, ExtensionFileLoader, SourceFileLoader
from atexit import register
from os.path import exists
from sys import is_finalizing, meta_path, modules, stdlib_module_names

# Not typing.TYPE_CHECKING: importing typing takes longer than the rest of `import arrowipc`.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__version__ = "0.1.0"

# The compiled modules. All are in one library, that of `_core`.
_COMPILED = """
    _core cdata.export cdata.import_array cdata.import_table columns.array columns.builder columns.elements
    columns.equal columns.record_batch columns.take columns.truncate decode.decoders decode.decompress
    decode.file_decoder decode.framing decode.from_buffers decode.from_feather decode.message_index
    decode.stream_decoder decode.validate derived.parse dissociated.memory.address_pairs
    dissociated.memory.device_bodies dissociated.transports.message_runs dissociated.transports.ucx_worker
    distinct.memo_table distinct.unifier encode.batch_encoder encode.batch_writer encode.dictionary_writer
    filters.column_statistics filters.ranges maps.file_maps metadata.checksums metadata.schema_reader
    metadata.schema_tables payloads.cells payloads.dictionaries payloads.dictionary_gc payloads.group_runs
    payloads.payload_decoder payloads.payload_encoder payloads.schema_mapping tensors.dense tensors.message
    tensors.sparse_index tensors.sparse_message tensors.strided_copy values.converters values.from_python
    values.nested values.row_reader values.scalars
"""


class _Finder:
    """Finds the compiled modules in their one library, and the others without lists of all folders.

    The interpreter would look for one library per module; for the others it takes twice as long as this.
    """

    library = __path__[0] + "/_core" + EXTENSION_SUFFIXES[0]
    names = frozenset([f"arrowipc.{name}" for name in _COMPILED.split()])

    @classmethod
    def find_spec(cls, name: str, path: "Any" = None, target: "Any" = None) -> ModuleSpec | None:
        if name in cls.names:
            return cls._spec(name, ExtensionFileLoader(name, cls.library))
        if name.startswith("arrowipc.") and name.islower():  # folders may ignore case
            place = __path__[0] + name.removeprefix("arrowipc").replace(".", "/")
            if exists(file := place + ".py"):
                return cls._spec(name, SourceFileLoader(name, file))
            if exists(file := place + "/__init__.py"):
                return cls._spec(name, SourceFileLoader(name, file), [place])
        return None

    @staticmethod
    def _spec(name: str, loader: "Any", folders: list[str] | None = None) -> ModuleSpec:
        spec = ModuleSpec(name, loader, origin=loader.path)
        spec.submodule_search_locations = folders
        spec.has_location = True
        return spec


meta_path.insert(0, _Finder)


class _Registered:
    """Lets methods import modules even while the interpreter ends.

    Methods import what they need when they are called, also from ``__del__``. At its end the interpreter empties
    ``sys.modules`` before it removes the last objects. That removes this object too, and its ``__del__`` puts the
    modules back. No other reference to it may exist, so `note` does not store its own entry of ``sys.modules``.
    """

    modules: "Any" = ()

    def __del__(self) -> None:
        if is_finalizing():
            modules.update(self.modules)

    @classmethod
    def note(cls) -> None:
        """Remember the modules that are loaded; runs at exit, after the functions that were registered later."""
        known = {"arrowipc", "numpy", "pandas", "polars", "pyarrow", "scipy", *stdlib_module_names}
        cls.modules = {name: module for name, module in modules.items() if name.partition(".")[0] in known}


modules["arrowipc_registered"] = _Registered()  # type: ignore[assignment]
register(_Registered.note)

# The modules that hold public names, each with its names.
_PUBLIC = """
    errors: ArrowIpcError FormatError LimitError NotFoundError TruncatedError UnsupportedError UsageError
    arguments: KeyValueMetadata
    limits: Limits
    reader: RecordBatchFileReader RecordBatchStreamReader open_stream
    opening: MessageReader open open_file read read_message read_record_batch read_schema
    writer: RecordBatchFileWriter RecordBatchStreamWriter copy get_record_batch_size new_file new_stream write
    inspection.damage: Damage Recovery
    inspection.recover: recover
    inspection.validate_source: Validation validate
    sources.remote: RemoteSource
    tensors.dense: Tensor
    tensors.dense_io: get_tensor_size read_tensor read_tensors write_tensor
    tensors.sparse_tensor: SparseCOOTensor SparseCSCMatrix SparseCSFTensor SparseCSRMatrix
    tensors.extension_columns: fixed_shape_tensor tensor_column tensor_parameters variable_shape_tensor
    tensors.sparse_io: read_sparse_tensor write_sparse_tensor
    filters.statistics: ColumnStatistics compute_statistics
    sources.file_statistics: file_statistics
    multifile.scan: scan_polars
    multifile.dataset: Dataset open_dataset
    multifile.rows: RowDataset
    multifile.row_stream: RowStream
    payloads.payload_encoder: GroupedPayloads encode_payloads
    decode.framing: Message
    stream_readers: IndexedStreamReader
    _core: release_unused
    decode.stream_decoder: StreamDecoder
    columns.array: Array
    columns.record_batch: RecordBatch concat_batches
    tables: ChunkedArray Table array chunked_array concat_tables record_batch table
    payloads.payload_decoder: DecodedPayloads decode_payloads repeat
    schemas: Schema
    types: DataType Field field schema
"""

# Public name -> the module that holds it.
_HOMES = {
    name: f"arrowipc.{home.rstrip(':')}" for home, *names in map(str.split, _PUBLIC.splitlines()[1:]) for name in names
}

#: Functions that are called for each message: they do without the errors of `with_advice`, which take time.
_PER_MESSAGE = ("concat_batches", "open_stream", "read_message", "read_record_batch", "release_unused", "repeat")

__all__ = ["__version__", *sorted(_HOMES)]


#: What there is here -> the names that other libraries have for it.
_INSTEAD = {
    "a bytearray() is a sink": "BufferOutputStream",
    "anything with __arrow_c_stream__ can be written, our readers have it": "RecordBatchReader",
    "array([None] * length, type)": "nulls",
    "array(values), Tensor(values)": "from_numpy",
    "arrowipc does not compute; pyarrow.compute takes table.to_arrow()": "compute",
    "arrowipc has no memory pools": "default_memory_pool set_memory_pool total_allocated_bytes",
    "arrowipc reads Arrow files and streams; table(data) takes what pyarrow, polars and pandas read": (
        "csv parquet read_csv read_json read_parquet read_sql scan_parquet write_parquet"
    ),
    "ArrowIpcError is the base of all errors": "ArrowError ArrowException ArrowInvalid exceptions",
    "bytes are a source": "py_buffer",
    "chunked_array(arrays).combine()": "concat_arrays",
    "concat_tables(tables), concat_batches(batches)": "concat",
    "decode_payloads(cells); read(data) for one": "decode decode_payload",
    "dissociated.from_flight(info, client)": "flight",
    "elements are Python values: array([value])[0]": "scalar",
    "encode_payloads(batch, rows_per_payload=...)": "encode encode_payload",
    'filters are lists: [("x", ">", 1), ("y", "in", ["a"])]': "col expr lit",
    "its options are keyword arguments of new_stream and new_file; pyarrow's goes to options=": "IpcWriteOptions",
    "its options are keyword arguments of open_stream and open_file; pyarrow's goes to options=": "IpcReadOptions",
    'Message.version is "V4" or "V5", Message.metadata_version a number': "MetadataVersion",
    "compression=... of new_stream and new_file, also a pyarrow.Codec": "Codec codecs Compression compression",
    "new_stream(sink) gives a writer, which writes data frames too": "serialize_pandas write_stream",
    "new_stream(sink), new_file(sink)": "FileWriter RecordBatchWriter StreamWriter Writer writer",
    "open(path) maps it": "memory_map",
    "open(source)": "FileReader open_ipc Reader reader StreamReader",
    "open(source).count_rows(), read(source).head(n)": "count head num_rows tail",
    "open(source).read_pandas() gives a DataFrame, read(source) a Table": "read_feather read_pandas",
    "open, open_stream, new_file, new_stream, read and write are here": "feather ipc",
    "open_dataset(path), or scan_polars(path) for a lazy frame": "dataset scan scan_ipc",
    "open_dataset(paths).schema": "unify_schemas",
    "open_stream(data).read_pandas()": "deserialize_pandas",
    "paths, bytes and file objects are sources and sinks": "Buffer BufferReader NativeFile OSFile PythonFile",
    "read(data)": "deserialize loads",
    "read(source) gives a Table": "load read_all read_batches read_file read_ipc read_stream read_table",
    "read_schema(source)": "get_schema read_metadata schema_of",
    "recover(source)": "fix repair",
    "table(data)": "from_arrow from_dicts from_pandas from_polars from_pylist from_records from_rows",
    "table(data), array(values); to_polars() and to_pandas() of them": "DataFrame LazyFrame Series",
    "table(data).schema, array(values).type": "from_numpy_dtype infer_schema infer_type",
    "table({name: values})": "from_dict from_pydict",
    "validate(source)": "check is_valid verify",
    "URLs such as s3://bucket/key are sources and sinks": "filesystem fs s3",
    "write(data, path)": "dump save write_feather write_file write_ipc write_table",
    "write(data, sink := bytearray())": "dumps serialize",
}


#: Modules that are attributes of the package, so that ``ipc.types.int64()`` needs no other import.
_MODULES = frozenset(("aio", "dissociated", "errors", "events", "spark", "types"))


def _module(name: str) -> "Any":
    __import__(name)
    return modules[name]


def __getattr__(name: str) -> "Any":
    if name in _MODULES:
        return _module(f"arrowipc.{name}")
    home = _HOMES.get(name)
    if home is None:
        from arrowipc import types
        from arrowipc.arguments import by_name, missing

        if name in types.__all__:  # also reached here, as in pyarrow; `dir` lists them in `types` only
            return getattr(types, name)

        raise missing("module 'arrowipc'", name, modules[__name__], {**types.factories(name), **by_name(_INSTEAD)})
    try:
        value = getattr(_module(home), name)
    except ImportError as error:
        from arrowipc.errors import not_installed

        raise not_installed(error) from None
    _unquote(value)
    if not isinstance(value, type) and name not in _PER_MESSAGE:
        from arrowipc.options import with_advice

        value = with_advice(value)
        setattr(modules[value.__module__], name, value)  # where pickles look for it
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, *_MODULES])


class _Annotation(str):
    """An annotation that `help` shows without quotes; like any string, it is evaluated only on request."""

    __slots__ = ()
    __repr__ = str.__str__


def _unquote(value: "Any") -> None:
    """Make the signature of a public function, or those of a class's methods, show types without quotes."""
    for member in vars(value).values() if isinstance(value, type) else (value,):
        annotations = getattr(getattr(member, "__func__", member), "__annotations__", None)
        for name in annotations or ():
            if type(annotations[name]) is str:
                annotations[name] = _Annotation(annotations[name])
