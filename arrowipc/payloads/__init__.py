"""Columns whose cells are IPC messages: many small payloads into one batch, and rows into payloads.

``cells`` finds the bytes of each row; ``payload_decoder`` reads them in one loop without Python; ``schema_mapping``
maps the fields of another schema; ``dictionaries`` makes one dictionary of all payloads' dictionaries, or plain
values. ``payload_encoder`` encodes payloads, for the runs of equal keys that ``group_runs`` finds; ``dictionary_gc``
keeps only the dictionary values that a payload uses.

Imports ``inline``, the base, ``metadata``, ``columns``, ``decode``, ``cdata``, ``values``, ``encode``.
"""
