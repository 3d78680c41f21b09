"""Columns whose cells are IPC messages: many small payloads into one batch, and rows into payloads.

``cells`` finds the bytes of each row; ``payload_decoder`` reads them in one loop without Python; ``schema_mapping``
says where the fields of another schema go; ``dictionaries`` makes one dictionary of those of the payloads, or plain
values. ``payload_encoder`` is the way back; ``dictionary_gc`` keeps the dictionary values that a payload uses.

Imports ``inline``, the base, ``metadata``, ``columns``, ``read``, ``cdata``, ``values``, ``write``.
"""
