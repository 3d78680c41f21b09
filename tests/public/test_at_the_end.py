"""Objects work until the interpreter is gone: what their methods import was imported when they were used before."""

import pytest
from helpers import processes
from project.test_architecture import UPWARD

#: Uses each object, then again where ``__del__`` of what a module holds is called: at the very end.
PROGRAM = """
import sys
import pandas, polars, pyarrow
import arrowipc as ipc

BATCH = ipc.RecordBatch.from_pydict({"x": [1, 2], "y": ["a", "b"], "l": [[1], []]})
TABLE, NUMBERS = ipc.Table.from_batches([BATCH, BATCH]), ipc.record_batch({"x": [1, 2]})
SINK = bytearray()
with ipc.new_file(SINK) as writer:
    writer.write(BATCH)
STREAM = BATCH.schema.serialize() + BATCH.serialize()
READERS = [[ipc.open(bytes(SINK)), ipc.open_stream(STREAM), ipc.open(STREAM, index=True)] for _ in range(2)]
ARRAY, COLUMN, SCHEMA = BATCH["x"], TABLE["x"], BATCH.schema
TENSOR, SPARSE = ipc.Tensor.from_numpy(ARRAY.to_numpy()), ipc.SparseCOOTensor.from_dense(ARRAY.to_numpy())
MESSAGE = BATCH.to_message()
OBJECTS = [BATCH, TABLE, ARRAY, COLUMN, SCHEMA, SCHEMA[0], SCHEMA[0].type, TENSOR, SPARSE, MESSAGE]
GIVEN = {"__reduce_ex__": (2,), "cast": ("int8",), "fill_null": (0,), "take": ([0],), "equals": (pyarrow.table(TABLE),)}
FAILED = []

def use(readers):
    for thing in [*OBJECTS, *readers]:
        for name in sorted(dir(thing)):
            known = name in ("__repr__", "__reduce_ex__") or name.startswith("__arrow_c_")
            if name.startswith("_") and not known or name in ("close", "to_torch"):
                continue
            try:
                method = getattr(thing, name)
                given = GIVEN.get(name, ())
                if name == "filter":
                    given = ([True] * len(thing),)
                if callable(method):
                    method(*given)
            except ImportError as error:
                FAILED.append(f"{type(thing).__name__}.{name}: {error}")
            except Exception:
                pass

use(READERS[0])
BATCH.filter([("x", "==", 1)])
assert not FAILED, FAILED
MODULES = sorted(name for name in sys.modules if name.startswith("arrowipc."))

class Last:
    def __del__(self):
        assert sys.meta_path is None
        use(READERS[1])
        BATCH.filter([("x", "==", 1)])
        try:
            ipc.dissociated
            FAILED.append("a module that was not imported is there")
        except ImportError as error:
            print("says so:", error)
        print(*FAILED, *MODULES, sep="\\n")

last = Last()
"""


@pytest.mark.thread_unsafe
def test_what_was_imported_stays_until_the_interpreter_is_gone() -> None:
    done = processes.run_python(PROGRAM)
    assert done.stderr == ""
    first, *lines = done.stdout.splitlines()
    assert first.startswith("says so: ")
    assert [line for line in lines if ": " in line] == []
    wanted = {f"arrowipc.{module}" for modules in UPWARD.values() for module in modules}
    assert wanted <= {*lines}
