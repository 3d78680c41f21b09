"""Tries a wheel where nothing else is installed: ``python tools/smoke.py FOLDER`` writes files into the folder."""

import platform
import random
import sys
from pathlib import Path

import arrowipc as ipc

assert "numpy" not in sys.modules
assert "flatbuffers" not in sys.modules

schema = ipc.types.schema([("x", ipc.types.int64()), ("s", ipc.types.utf8())])
# More values than the vectors of any processor hold at once.
rows = {"x": [*range(999), None], "s": [*map(chr, range(200, 1199)), None]}
refused = 0
for kind in ("file", "stream"):
    path = Path(sys.argv[1], f"smoke.{kind}")
    with getattr(ipc, f"new_{kind}")(path, checksum=True) as writer:
        writer.write(ipc.RecordBatch.from_pydict(rows, schema))
    with ipc.open(path, verify=True, validate="strict") as reader:
        assert reader.read_all().to_pydict() == rows
    data = path.read_bytes()
    assert ipc.validate(data).ok
    chance = random.Random(64)
    for _ in range(100):
        mutant = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            mutant[chance.randrange(len(mutant))] = chance.randrange(256)
        try:
            ipc.open(bytes(mutant), validate="strict").read_all().to_pydict()
        except ipc.ArrowIpcError:
            refused += 1
assert refused
where = f"Python {platform.python_version()}, {platform.machine()}"
print(f"{ipc.__version__} on {where}: writes, reads, verifies; refused {refused} of 200 mutants")
