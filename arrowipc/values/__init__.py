"""Conversion from and to Python and NumPy values, and display as text and HTML.

From Python: ``inference`` finds the type, and ``from_python`` builds batches and arrays. ``nested`` builds columns of
lists, ``converters`` fills fields without children, ``scalars`` stores one value; ``from_numpy`` uses arrays without a
copy where it can, and ``dtypes`` maps types to dtypes. To Python: ``to_numpy`` and ``to_pandas``; ``libraries`` makes
objects of other libraries, ``repr`` and ``preview`` print. ``pickling`` takes batches apart and puts them together.
``row_reader`` takes rows by number and loads batches when they are needed.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``.
"""
