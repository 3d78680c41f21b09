"""Says what a file contains and whether it is valid, and saves what can be saved of a broken one.

``message_layout`` lists messages and buffers, ``validate_source`` checks all of a source, and ``recover`` reads
what it can (``resync`` finds messages after damage, ``damage`` reports what was lost).

Imports all lower packages, also the readers and writers.
"""
