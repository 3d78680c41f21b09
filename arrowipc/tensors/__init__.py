"""Dense and sparse tensors as IPC messages, and tensors as columns.

Dense: ``dense`` is the `Tensor`, ``strided_copy`` brings it into order, ``message`` finds and writes tensor
messages, ``message_io`` and ``dense_io`` read and write sources of them. Sparse: ``sparse_layouts`` has the
four classes on ``sparse_tensor``; ``sparse_index`` checks indices, ``sparse_dense`` and ``sparse_convert``
change forms, ``sparse_message`` and ``sparse_io`` are the messages, ``sparse_interop`` SciPy, PyData and
torch. ``extension_columns`` has the canonical tensor types of columns.

Imports every room above: ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``,
``write``.
"""
