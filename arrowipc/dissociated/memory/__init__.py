"""Memory whose pieces a peer reads: addresses instead of bytes.

``segments`` keeps the books about what is lent, ``arena`` lends shared memory, ``receiving`` is where the bytes of a
peer go, ``address_pairs`` reads and writes what a message says of them, ``device_bodies`` leaves bodies on a device.
"""
