"""Takes functions and objects to the executors, and says there what helps if these lack the package.

Spark pickles what tasks need, and names of our modules in it are imported before a line of ours runs. So the pickle
is packed into another one, which needs none of our modules and can say more than that one is missing.
"""

import pickle
from collections.abc import Callable
from typing import Any, SupportsIndex

MISSING = (
    "{python} on {host} cannot import {name}: tasks need arrowipc, pyarrow and NumPy on every executor. How they get "
    "there: docs/spark-deployment.md, 'Bring the package to the executors' (data sources run the driver's Python "
    "path on executors too)"
)


def packed(value: Any) -> Callable[[], Any]:
    """A function that gives the value back; its own pickle names no module of ours."""
    data, text = _pickled(value), MISSING

    def unpack() -> Any:
        import pickle
        import socket
        import sys

        try:
            return pickle.loads(data)
        except ModuleNotFoundError as error:
            name = (error.name or "").partition(".")[0]
            if name not in ("arrowipc", "numpy", "pyarrow"):
                raise
            where = {"python": sys.executable, "host": socket.gethostname(), "name": name}
            raise ModuleNotFoundError(text.format(**where), name=error.name) from None

    return unpack


def shipped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of one argument, as Spark is to have it."""
    unpack = packed(function)

    def call(batches: Any) -> Any:
        return unpack()(batches)

    call.__name__ = function.__name__
    return call


class _Late:
    """Becomes, where it is unpickled, what a function returns."""

    def __init__(self, reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Any:
        return self._reduced


class Shipped:
    """Base class of what Spark pickles for its tasks."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # Of the standard library alone, so that any pickle and any Python gets as far as `unpack`.
        unpack = packed(_Late((_restored, (type(self), self.__getstate__()))))
        return pickle.loads, (_pickled(_Late((unpack, ()))),)


def _pickled(value: Any) -> bytes:
    from pyspark import cloudpickle

    dumps: Any = cloudpickle.dumps
    return bytes(dumps(value))


def _restored(kind: type[Any], state: Any) -> Any:
    value = object.__new__(kind)
    value.__dict__.update(state)
    return value
