"""Conversion from and to Python and NumPy values, and display as text and HTML.

Inwards ``inference`` finds a type, and ``from_python`` takes what columns are made of: ``nested`` makes them of lists,
``converters`` those without children, ``scalars`` one value; ``from_numpy`` takes arrays as they are where ``dtypes``
says so. Outwards go ``to_numpy`` and ``to_pandas``. ``libraries`` names the ways to others, ``repr`` and ``preview``
print, ``pickling`` takes batches apart and puts them together. ``row_reader`` takes rows by number and loads batches
when they are needed.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``.
"""
