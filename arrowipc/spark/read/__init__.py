"""Reading in Spark: ``partitions`` plans and reads what ``arrowipc.read.files`` finds, ``convert`` makes it fit.

``folders`` chooses among what was found and types keys, ``inference`` finds the schema, ``columns`` adds what no file
holds; ``pruning`` leaves out files and batches that the query does not need.
"""
