"""Pickles functions and objects for executors, so that an executor without arrowipc raises a helpful error.

Spark pickles the functions of tasks, and unpickling imports the modules that they name before any code of arrowipc
runs. So the pickle is wrapped in another one, which needs no module of arrowipc, and reports a missing one.
"""

import pickle
from collections.abc import Callable
from typing import Any, SupportsIndex

from arrowipc.arguments import described
from arrowipc.errors import UsageError

MISSING = (
    "{python} on {host} cannot import {name}: tasks need arrowipc, pyarrow and NumPy on every executor. How they get "
    "there: docs/spark-deployment.md, 'Bring the package to the executors' (data sources run the driver's Python "
    "path on executors too)"
)


def packed(value: Any) -> Callable[[], Any]:
    """Return a function that returns the value; its own pickle names no module of arrowipc."""
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


def check_frame(df: Any) -> None:
    """Check that an argument is a data frame of Spark."""
    if not hasattr(df, "sparkSession"):
        raise UsageError(
            f"df: expected a data frame of Spark, found {described(df)}: arrowipc.spark.create(spark, data) makes one"
        )


def check_session(spark: Any) -> None:
    """Check that an argument is a session of Spark."""
    if not hasattr(spark, "createDataFrame"):
        raise UsageError(
            f"spark: expected a SparkSession, found {described(spark)}: arrowipc.spark.session() gives one"
        )


def shipped(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a function of one argument in a form that Spark can pickle for executors."""
    unpack = packed(function)

    def call(batches: Any) -> Any:
        return unpack()(batches)

    call.__name__ = function.__name__
    return call


class _Late:
    """An object that is unpickled as the result of a function call."""

    def __init__(self, reduced: Any) -> None:
        self._reduced = reduced

    def __reduce__(self) -> Any:
        return self._reduced


class Shipped:
    """Base class of objects that Spark pickles for its tasks."""

    def __reduce_ex__(self, protocol: SupportsIndex) -> tuple[Any, ...]:
        # Only the standard library is needed to get as far as `unpack`, which reports missing packages.
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
