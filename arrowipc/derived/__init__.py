"""Columns and batches made of others, in Python.

``casts`` gives columns another type (``fast_casts`` by NumPy), ``dictionary_encode`` another encoding or other batch
boundaries. ``computed`` has the few computations that there are: order, counts, places.

Imports the base, ``columns``, ``filters``, ``values``.
"""
