"""Reading in Spark.

``partitions`` plans and reads, on what ``files`` finds and ``pruning`` leaves out; ``convert``.
"""
