"""What a file is, whether it is sound, and what of a broken one can be saved.

``message_layout`` lists messages and buffers, ``validate_source`` checks a source whole, and ``recover`` reads
what it can (``resync`` finds messages again, ``damage`` tells what was lost).

Imports everything above, the readers and writers too.
"""
