"""Reading in Spark: ``reader`` shares files out among tasks and reads them, ``convert`` makes batches fit.

``sources`` finds and opens files, ``schema`` says which columns they and their folders have.
"""
