"""The exceptions of arrowipc, in one tree. Every refusal of input or of a call is one of these.

::

    ArrowIpcError(Exception)
    ├─ FormatError(ValueError)                 the bytes break the format
    │  ├─ TruncatedError(EOFError, OSError)    ... because they stop too soon
    │  └─ LimitError                           ... or ask for more than Limits allow
    ├─ UnsupportedError(NotImplementedError)   valid, and not implemented here
    └─ UsageError(RuntimeError, ValueError)    the caller broke the order of calls or the types
       ├─ NotFoundError(IndexError, KeyError)  ... or asked for a batch or column that is not there
       └─ PathNotFoundError(FileNotFoundError) ... or for files where there are none

MissingPackageError is both an UnsupportedError and a UsageError: something needs a package that is not installed.
Each class also inherits the builtin exceptions in parentheses, which callers already catch. ``OSError`` and
``MemoryError`` pass through unchanged.
"""

from errno import ENOENT
from os.path import exists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "ArrowIpcError",
    "FormatError",
    "LimitError",
    "NotFoundError",
    "PathNotFoundError",
    "TruncatedError",
    "UnsupportedError",
    "UsageError",
    "named_column",
    "printable",
    "showable",
]


def printable(text: str) -> str:
    """Return a text with characters that control a terminal, lines or directions escaped: names may contain them."""
    if text.isprintable():
        return text
    return "".join([c if c.isprintable() else c.encode("unicode_escape").decode() for c in text])


def showable(text: str) -> str:
    """Return a printable text in which URLs show no user information (``https://***@host``) and no query values.

    Examples
    --------
    >>> from arrowipc.errors import showable
    >>> showable("https://me:secret@host/a.arrow?X-Amz-Signature=ab12&part=1: not found")
    'https://***@host/a.arrow?X-Amz-Signature=***&part=***: not found'
    """
    text = printable(text)
    if "://" not in text:
        return text
    import re

    # After what looks like a port comes a path, in which @ means nothing; a password may contain a slash. The text may
    # contain names from an untrusted file, so matching must take linear time: attempts overlap in few characters only.
    text = re.sub(r"://(?:[^/?#\s]*|[^/?#\s:@]+:(?!\d{1,5}[/?#\s])\S{0,200})@", "://***@", text)
    return re.sub(r"([?&;#][^\s=&/?#;]*=)[^\s&#]*?(?=[:,)'\"]{0,3}(?:[\s&#]|$))", r"\1***", text)


def named_column(path: str) -> str:
    """Return how errors name the column with this path; arrays have no name, and columns may have none."""
    return f"column {path.removeprefix('.')!r}" if path else "the unnamed column"


class ArrowIpcError(Exception):
    """Base of every exception that arrowipc raises on purpose; its text is one line without control characters.

    `column` is the dotted path of the column that the error is about; None if it is about no column, or not known.

    Examples
    --------
    >>> import arrowipc as ipc
    >>> def refused(call):
    ...     try:
    ...         call()
    ...     except ipc.ArrowIpcError as error:
    ...         return type(error)
    >>> assert refused(lambda: ipc.read_schema(b"text, no Arrow! ")) is ipc.FormatError
    >>> assert refused(lambda: ipc.read_schema(bytes.fromhex("ffffffff10000000"))) is ipc.TruncatedError
    >>> assert refused(lambda: ipc.Array.from_pylist([1, 2]).to_pylist(max_values=1)) is ipc.LimitError
    >>> assert refused(lambda: ipc.Array.from_pylist([1, 2]).slice(-1)) is ipc.UsageError
    >>> assert refused(lambda: ipc.RecordBatch.from_pydict({"x": [1]})["y"]) is ipc.NotFoundError
    >>> assert refused(lambda: ipc.Array.from_pylist(["a" * 2**20]).take([0] * 2048)) is ipc.UnsupportedError
    """

    column: "str | None" = None

    def __init__(self, *args: object) -> None:
        BaseException.__init__(self, *[showable(each) if isinstance(each, str) else each for each in args])

    def __str__(self) -> str:
        return Exception.__str__(self)  # KeyError would put the message in quotes


def not_installed(error: ImportError) -> ImportError:
    """Return the error for a failed import; for NumPy and our compiled modules, its text says how to get them."""
    if error.name == "numpy":
        return ModuleNotFoundError(str(missing_package("this", "numpy")), name="numpy")
    if error.path is not None and not exists(error.path):
        words = f"{error.path} is not built: run `make dev`, or set PYTHONSAFEPATH=1 to import the installed package"
        return ImportError(words, name=error.name, path=error.path)
    return error


class FormatError(ArrowIpcError, ValueError):
    """The bytes are not what the Arrow IPC format allows."""


class TruncatedError(FormatError, EOFError, OSError):
    """The bytes are valid, but stop before a message is complete."""


class LimitError(FormatError):
    """The bytes ask for more memory, rows or depth than :class:`arrowipc.Limits` allows."""


class UnsupportedError(ArrowIpcError, NotImplementedError):
    """The bytes are valid, but this library does not implement what they need."""


class UsageError(ArrowIpcError, RuntimeError, ValueError):
    """A call came in the wrong order, or with arguments that do not fit."""


class MissingPackageError(UnsupportedError, UsageError):
    """A package is not installed; made by `missing_package`."""


def missing_package(what: str, *packages: str) -> MissingPackageError:
    """Return the error for a feature, `what`, that needs packages that are not installed; give their names on PyPI."""
    verb = "which is" if len(packages) == 1 else "which are"
    words = f"{what} needs {' and '.join(packages)}, {verb} not installed: python -m pip install {' '.join(packages)}"
    return MissingPackageError(words)


class NotFoundError(UsageError, IndexError, KeyError):
    """There is no batch, column or field with this index or name, or there are several with the name."""


class PathNotFoundError(UsageError, FileNotFoundError):
    """A path, a pattern or a URL leads to no file."""

    def __init__(self, text: str, path: "str | None" = None) -> None:
        super().__init__(text)
        self.errno: int | None = ENOENT
        self.filename: Any = path
