"""Writing in Spark: tasks write files (``task``), the driver renames them (``commit``).

``storage`` is what both do with file systems, ``options`` what users may ask for, ``folders`` the names of keys.
"""
