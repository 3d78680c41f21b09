"""Reading in Spark: ``partitions`` plans and reads what ``arrowipc.read.files`` finds, ``convert`` makes it fit.

``pruning`` leaves out batches that the query does not need.
"""
