"""Memory that a peer reads by itself: it is sent addresses instead of bytes.

``segments`` counts which memory is lent, ``arena`` lends shared memory, ``receiving`` allocates memory for a peer's
bytes, ``address_pairs`` reads and writes bodies that are addresses, ``device_bodies`` leaves bodies on a device.
"""
