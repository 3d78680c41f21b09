"""Dense and sparse tensors as IPC messages, and tensors as columns.

Dense: ``dense`` is the `Tensor`, ``strided_copy`` brings its elements into order, ``message`` finds and writes
tensor messages, ``message_io`` and ``dense_io`` bring them to and from sources. Sparse: ``sparse_layouts`` has the
four classes on ``sparse_tensor``; ``sparse_index`` checks, sorts and makes indices, ``sparse_convert`` changes
forms, ``sparse_message`` and ``sparse_io`` are the messages, ``sparse_interop`` SciPy, PyData Sparse and PyTorch.
``extension_columns`` has the canonical tensor types of columns.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``, ``write``.
"""
