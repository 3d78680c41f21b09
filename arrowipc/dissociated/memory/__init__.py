"""Memory whose pieces a peer reads: addresses instead of bytes.

``arena`` lends pieces of shared memory out of ``ranges``, ``address_pairs`` reads and writes what a message
says of them, ``device_bodies`` leaves bodies on a device.
"""
