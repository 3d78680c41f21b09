"""Writing in Spark: ``files`` turns rows into files, ``folder`` is their folder, ``job`` stages and renames them."""
