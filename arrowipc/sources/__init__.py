"""Sources of bytes: finding and opening files, local and remote, and the statistics of their batches.

``files`` finds the files of paths, folders and patterns, with ``spark_log``, the list of files that a streaming query
has committed; ``source`` opens a source as memory or a file object. ``file_objects`` reads file objects, compares
versions of files, and knows the paths of local URLs; ``remote`` reads from any fsspec file system, ``http`` over HTTP.
``followed`` waits for messages that are appended to a stream, ``locks`` locks paths against other writers.
``file_statistics`` writes and reads the statistics in footers.

Imports ``inline``, the base, ``metadata``, ``columns``, ``filters``, ``decode``.
"""
