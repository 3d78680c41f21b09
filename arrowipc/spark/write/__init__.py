"""Writing in Spark.

``task`` writes parts, ``commit`` shows them all, ``storage`` moves files, ``options`` parses.
"""
