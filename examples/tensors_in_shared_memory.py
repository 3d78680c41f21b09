"""Two processes share one array through memory: written once, read in place, with its shape and its names.

python tensors_in_shared_memory.py
"""

from multiprocessing import get_context
from multiprocessing.shared_memory import SharedMemory

import numpy as np

import arrowipc as ipc


def look(name: str) -> None:
    """The other process: map the memory and use the array in place."""
    memory = SharedMemory(name)
    tensor = ipc.read_tensor(memory.buf)
    frames = tensor.to_numpy()
    print("reader:", frames.shape, tensor.dim_names, "mean of the last frame:", frames[-1].mean())
    del tensor, frames  # a map that is still in use cannot be closed
    memory.close()


def main() -> None:
    """Put frames into shared memory, and let another process read them."""
    frames = np.arange(4 * 48 * 64, dtype="float32").reshape(4, 48, 64)
    memory = SharedMemory(create=True, size=ipc.get_tensor_size(frames, dim_names=["frame", "y", "x"]))
    try:
        ipc.write_tensor(frames, memory.buf, dim_names=["frame", "y", "x"])
        print("writer:", memory.size, "bytes for", frames.nbytes, "bytes of values")
        reader = get_context("spawn").Process(target=look, args=(memory.name,))
        reader.start()
        reader.join()
    finally:
        memory.close()
        memory.unlink()


if __name__ == "__main__":
    main()
