"""Reading in Spark: ``reader`` plans and runs tasks, ``convert`` converts batches; also ``sources`` and ``schema``."""
