"""What the tests of this folder need before any of them: a transport that no server of the package has."""

from __future__ import annotations

from helpers import memory_transport

memory_transport.register()
