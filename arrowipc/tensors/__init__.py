"""Dense and sparse tensors as IPC messages, and tensors as columns.

Dense: ``dense`` is the `Tensor`, ``strided_copy`` copies its elements into row-major order, ``message`` reads the parts
of tensor messages and writes messages, ``message_io`` and ``dense_io`` do the I/O. Sparse: ``sparse_tensor`` has one
class over a table of layouts; ``sparse_convert`` checks and converts indices with NumPy, and with ``sparse_index``
where NumPy is slower; ``sparse_message`` and ``sparse_io`` read and write messages, ``sparse_interop`` converts from
and to SciPy and PyTorch, and from PyData Sparse. ``extension_columns`` has the canonical tensor types of columns.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``, ``values``, ``encode``.
"""
