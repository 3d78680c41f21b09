"""Conversion from and to Python and NumPy values, and display as text and HTML.

Inwards ``inference`` finds a type, ``from_python`` builds columns with ``converters`` for what has no
children, and ``from_numpy`` takes arrays as they are where ``dtypes`` says so, and ``from_feather``
reads Feather V1 files; outwards ``to_numpy`` and ``to_pandas``.
``libraries`` names the ways to others, ``repr`` and ``preview`` print, ``pickling`` takes batches
apart and puts them together. ``row_reader`` takes rows by number and
loads batches when they are needed. ``casts`` gives columns another type (``fast_casts`` by NumPy),
``dictionary_encode`` another encoding or other batch boundaries. ``computed`` has the few
computations that there are: order, counts, places.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``.
"""
