"""The URI that a server publishes: where it listens, and the tags that its clients must use.

See Dissociated IPC, "URI Specification".
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote, unquote_plus, urlsplit

from arrowipc.arguments import Immutable, check_choice, check_integer, described, filled, instance_of
from arrowipc.dissociated.protocol import check_tags
from arrowipc.errors import FormatError, UsageError

if TYPE_CHECKING:
    from typing import Literal, Self

    Streams = Literal["both", "meta", "data"]

#: The parameters that are read; all others are ignored.
KNOWN = ("want_data", "free_data", "remote_handle", "streams")

SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
#: A host name or an address, also one of IPv6 with its zone.
HOST = re.compile(r"[\w.~:%-]*")


def new_tag() -> int:
    """Return a random tag that no body can have: its top byte is 2 or more, its reserved bits are not 0."""
    return (secrets.randbelow(254) + 2) << 56 | (secrets.randbelow(2**24 - 1) + 1) << 32 | secrets.randbits(32)


class DissociatedUri(Immutable):
    """Where a server offers streams, and how to ask for one.

    Parameters
    ----------
    scheme : str
        Names the transport.
    host : str
        Empty for transports within one machine.
    port : int, optional
    path : str
        The path of a Unix socket.
    want_data : int
        Tag (u64) of the message that asks for a stream.
    free_data : int, optional
        Tag of the messages that give memory back, if the server may send addresses of its memory instead of bytes.
    remote_handle : bytes, optional
        What a client needs to reach that memory.
    streams : {"both", "meta", "data"}
        Which of the two streams the server sends there. An extension of arrowipc, which other readers ignore.

    Raises
    ------
    FormatError
        A part cannot be written into a URI and read back.

    Examples
    --------
    >>> uri = DissociatedUri.parse("ucx://10.0.0.1:31337?want_data=18446741783881759408&color=blue")
    >>> uri.host, uri.port, hex(uri.want_data)
    ('10.0.0.1', 31337, '0xfffffdeadba0bab0')
    >>> str(uri)
    'ucx://10.0.0.1:31337?want_data=18446741783881759408'
    """

    __slots__ = __match_args__ = (
        "scheme",
        "host",
        "port",
        "path",
        "want_data",
        "free_data",
        "remote_handle",
        "streams",
    )
    scheme: str
    host: str
    port: int | None
    path: str
    want_data: int
    free_data: int | None
    remote_handle: bytes | None
    streams: Streams

    def __new__(
        cls,
        scheme: str,
        host: str = "",
        port: int | None = None,
        path: str = "",
        *,
        want_data: int,
        free_data: int | None = None,
        remote_handle: bytes | None = None,
        streams: Streams = "both",
    ) -> Self:
        check_tags(want_data, free_data)
        for name, part in (("scheme", scheme), ("host", host), ("path", path)):
            if not isinstance(part, str):
                raise UsageError(f"the {name} of a URI must be a str, found {described(part)}")
        instance_of("remote_handle", remote_handle, (bytes, type(None)))
        if not SCHEME.fullmatch(scheme):
            raise FormatError(f"a URI begins with the name of a transport, as in ucx://, found {scheme!r}")
        host = host.lower()
        if not HOST.fullmatch(host):
            raise FormatError(f"the host of a URI is a name or an address, found {host!r}")
        if port is not None:
            check_integer("the port of a URI", port, 0, (1 << 16) - 1)
        if path and not path.startswith("/"):
            raise FormatError(f"the path of a URI begins with a slash, found {path!r}")
        try:
            urlsplit(f"//[{host}]" if ":" in host else "")
            quote(path, errors="surrogateescape")
        except ValueError as error:
            raise FormatError(f"host and path of a URI, found {host!r} and {path!r}: {error}") from None
        check_choice("streams", streams, ("both", "meta", "data"))
        return filled(cls, scheme.lower(), host, port, path, want_data, free_data, remote_handle, streams)

    def __reduce__(self) -> tuple[object, ...]:
        return DissociatedUri.parse, (str(self),)

    @staticmethod
    def parse(text: str) -> DissociatedUri:
        """Read a URI.

        Raises
        ------
        FormatError
            `want_data` is missing, a tag is no u64, the handle is no base64, or a parameter is given twice.
        UsageError
            It is no text.
        """
        if not isinstance(text, str):
            raise UsageError(f"uri: expected a str or a DissociatedUri, found {described(text)}")
        try:
            parts = urlsplit(text)
            port = parts.port
        except ValueError as error:
            raise FormatError(f"not a URI: {text!r}: {error}") from None
        given = _parameters(parts.query, text)
        if "want_data" not in given:
            raise FormatError(f"the URI has no want_data, so a client cannot ask for its stream: {text!r}")
        handle = given.get("remote_handle")
        streams = given.get("streams", "both")
        if streams not in ("both", "meta", "data"):
            raise FormatError(f'streams is "both", "meta" or "data", found {streams!r} in {text!r}')
        return DissociatedUri(
            parts.scheme,
            parts.hostname or "",
            port,
            unquote(parts.path, errors="surrogateescape"),
            want_data=_tag("want_data", given["want_data"], text),
            free_data=_tag("free_data", given["free_data"], text) if "free_data" in given else None,
            remote_handle=None if handle is None else _handle(handle, text),
            streams=streams,  # type: ignore[arg-type]
        )

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        place = host if self.port is None else f"{host}:{self.port}"
        path = quote(self.path, errors="surrogateescape")  # a path is bytes of unknown encoding
        query = [f"want_data={self.want_data}"]
        if self.free_data is not None:
            query.append(f"free_data={self.free_data}")
        if self.remote_handle is not None:
            # All escaped: decoding as a form would turn plus signs into spaces.
            query.append("remote_handle=" + quote(base64.b64encode(self.remote_handle).decode(), safe=""))
        if self.streams != "both":
            query.append(f"streams={self.streams}")
        return f"{self.scheme}://{place}{path}?{'&'.join(query)}"

    def __repr__(self) -> str:
        return f"DissociatedUri.parse({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return self._parameters() == other._parameters() if isinstance(other, DissociatedUri) else NotImplemented

    def __hash__(self) -> int:
        return hash(str(self))


def _parameters(query: str, text: str) -> dict[str, str]:
    """Return the known parameters of the URI; a name that occurs twice is an error."""
    found: dict[str, str] = {}
    for item in query.split("&") if query else ():
        name, _, value = item.partition("=")
        if name in KNOWN:
            if name in found:
                raise FormatError(f"{name} is given twice in {text!r}")
            found[name] = unquote_plus(value)
    return found


def _tag(name: str, value: str, text: str) -> int:
    # Twenty digits hold every u64; longer text is refused, even with leading zeros.
    if not (value.isascii() and value.isdigit() and len(value) <= 20 and int(value) < 1 << 64):
        raise FormatError(f"{name} is a decimal number below 2**64, found {value!r} in {text!r}")
    return int(value)


def _handle(value: str, text: str) -> bytes:
    """Read base64 of either alphabet, with or without padding, also if form decoding turned plus signs into spaces."""
    standard = value.replace(" ", "+").replace("-", "+").replace("_", "/").rstrip("=")
    try:
        return base64.b64decode(standard + "=" * (-len(standard) % 4), validate=True)
    except (binascii.Error, ValueError) as error:
        raise FormatError(f"remote_handle is base64, found {value!r} in {text!r}: {error}") from None
