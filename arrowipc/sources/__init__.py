"""Where bytes come from, and what lies beside the batches in them.

``files`` finds the files of paths, folders and patterns, with ``spark_log``, the list of files that a streaming query
has committed; ``source`` opens a source as memory or a file object (``file_objects``, which also notice another
version, ``remote`` with any fsspec file system, ``http``); ``followed`` waits for what is appended to a stream,
``locks`` say who writes to a path. ``file_statistics`` writes and reads the statistics in footers.

Imports ``inline``, the base, ``metadata``, ``columns``, ``filters``, ``decode``.
"""
