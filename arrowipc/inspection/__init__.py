"""What a file is, whether it is sound, and what of a broken one can be saved.

``message_layout`` lists messages and buffers, ``validate_source`` checks a source whole, ``recover`` reads
what it can (``resync`` finds messages again, ``damage`` tells what was lost), and ``portability`` says who else
reads the data.

Imports everything above, the readers and writers too.
"""
