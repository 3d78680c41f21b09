"""Many files as one: folders, patterns, lists and URLs of Arrow files and streams.

``partitioning`` reads keys from the names of folders, ``fragments`` opens one file of a data set, ``unify`` makes one
schema of many and converts batches to it, ``dataset`` has the public class; ``scan`` passes it to polars,
and ``filters`` converts other filters to ours.
"""
