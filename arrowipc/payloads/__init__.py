"""Columns whose cells are IPC messages: many small payloads into one batch, and rows into payloads.

``cells`` finds the bytes of each row; ``payload_decoder`` reads them in one loop without Python; ``schema_mapping``
says where the fields of another schema go; ``dictionaries`` (in the loop) and ``schema_mapping`` (outside it) make
one dictionary of those of the payloads. ``payload_encoder`` is the way back.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``, ``write``.
"""
