"""Reading in Spark: ``reader`` shares files out among tasks, ``convert`` makes batches fit; ``sources``, ``schema``."""
