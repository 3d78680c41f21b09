"""Dense and sparse tensors as IPC messages, and tensors as columns.

Dense: ``dense`` is the `Tensor`, ``strided_copy`` brings its elements into order, ``message`` finds and writes
tensor messages, ``message_io`` and ``dense_io`` bring them to and from sources. Sparse: ``sparse_tensor`` has one
class over a table of layouts; ``sparse_convert`` proves indices and makes them of others with NumPy, and with
``sparse_index`` where that is slower; ``sparse_message`` and ``sparse_io`` are the messages, ``sparse_interop`` SciPy,
PyData Sparse and PyTorch.
``extension_columns`` has the canonical tensor types of columns.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``, ``values``, ``encode``.
"""
