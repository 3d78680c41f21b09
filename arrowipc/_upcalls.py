"""The one seam through which lower rooms call higher ones: methods of data that export, print or write.

All other imports point down in the order of the rooms (docs/architecture.md). A function is looked up when it
is first called, by ``from arrowipc._upcalls import name`` inside the method that needs it.
"""

from importlib import import_module

from arrowipc.errors import not_installed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from arrowipc.cdata.export import export_schema as export_schema
    from arrowipc.cdata.import_array import described_from as described_from
    from arrowipc.metadata.schema_writer import encapsulate as encapsulate, schema_metadata as schema_metadata
    from arrowipc.tensors.extension_columns import column_to_numpy as column_to_numpy
    from arrowipc.tensors.sparse_io import write_sparse_tensor as write_sparse_tensor
    from arrowipc.values.repr import schema_html as schema_html, schema_text as schema_text

#: Who calls, whom, and which functions of it. The reason is the same for all: a method that users expect on
#: an object lies in the room of the object, what it does lies in a room that needs the object.
UPCALLS = {
    # Batches and arrays: PyCapsule methods, constructors, text, NumPy, serialize().
    ("columns.array", "cdata.export"): (
        "export_array",
        "export_batch",
        "export_device_array",
        "export_schema",
        "export_stream",
    ),
    ("columns.array", "cdata.import_array"): ("array_from", "batch_from"),
    ("columns.array", "columns.take"): ("take_indices",),
    ("columns.array", "tensors.dense"): ("Tensor",),
    ("columns.array", "values.from_python"): (
        "append_column",
        "build_array",
        "build_batch",
        "build_rows",
        "from_buffers",
    ),
    ("columns.array", "values.libraries"): (
        "from_pandas",
        "from_records",
        "narwhals_frame",
        "to_arrow",
        "to_polars",
        "to_records",
    ),
    ("columns.array", "values.pickling"): ("reduce_array", "reduce_batch"),
    ("columns.array", "values.repr"): ("array_html", "array_text", "batch_html", "batch_text"),
    ("columns.array", "values.to_numpy"): ("as_array", "rows_as_array", "to_numpy"),
    ("columns.array", "values.to_pandas"): ("to_pandas",),
    ("columns.array", "write.batch_writer"): ("batch_message",),
    # Schemas and types: the PyCapsule method, comparison with those of others, text, and the Schema message of
    # Schema.serialize.
    ("datatypes", "cdata.export"): ("export_schema",),
    ("datatypes", "cdata.import_array"): ("described_from",),
    ("schema", "metadata.schema_writer"): ("encapsulate", "schema_metadata"),
    ("schema", "values.repr"): ("schema_html", "schema_text"),
    # Message.__repr__, and columns of tensors as NumPy arrays of their shape.
    ("read.framing", "values.pickling"): ("reduce_message",),
    ("read.framing", "values.repr"): ("message_text",),
    ("values.to_numpy", "tensors.extension_columns"): ("column_to_numpy",),
    # Tensors: text, pickling and messages.
    ("tensors.dense", "tensors.dense_io"): ("read_tensor", "serialize_tensor", "tensor_text"),
    ("tensors.sparse_tensor", "tensors.sparse_io"): ("write_sparse_tensor",),
}

_HOMES = {name: home for (_, home), names in UPCALLS.items() for name in names}


def _refuses(error: ImportError) -> "Any":
    """Return a function that raises the error: compiled modules make an ImportError of what is raised here."""

    def refuse(*arguments: "Any", **options: "Any") -> "Any":
        raise error

    return refuse


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    try:
        home = import_module(f"arrowipc.{_HOMES[name]}")
    except ImportError as error:
        return _refuses(not_installed(error))
    value = getattr(home, name)
    globals()[name] = value
    return value
