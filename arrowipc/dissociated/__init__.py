"""Dissociated IPC: Arrow streams whose metadata and bodies are sent separately, over sockets, shared memory and UCX.

The modules are imported when their names are first used.
"""

from importlib import import_module
from sys import modules

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_HOMES = {
    "Channel": "arrowipc.dissociated.client",
    "Client": "arrowipc.dissociated.client",
    "connect": "arrowipc.dissociated.client",
    "DissociatedUri": "arrowipc.dissociated.uri",
    "Prepared": "arrowipc.dissociated.served",
    "Server": "arrowipc.dissociated.server",
    "from_flight": "arrowipc.dissociated.flight",
}

__all__ = sorted(_HOMES)


def __getattr__(name: str) -> "Any":
    home = _HOMES.get(name)
    if home is None:
        from arrowipc.arguments import by_name, missing

        instead = by_name({"Server(streams)": "listen serve", "connect(uri)": "open read"})
        raise missing(f"module {__name__!r}", name, modules[__name__], instead)
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
