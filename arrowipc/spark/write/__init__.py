"""Writing in Spark: ``files`` turns rows into files, ``folder`` is where they lie, ``job`` stages and renames them."""
