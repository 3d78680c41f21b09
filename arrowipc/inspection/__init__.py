"""What a file is, whether it is sound, and what of a broken one can be saved.

``message_layout`` lists messages and buffers, ``validate_source`` checks a source whole, ``recover`` reads
what it can (``resync`` finds messages again, ``damage`` tells what was lost), ``portability`` says who else
reads the data, and ``integration_json`` is Arrow's JSON for integration tests.

Imports everything above, the readers and writers too.
"""
