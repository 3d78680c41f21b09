"""Data that all Python workers of a host read from the same memory: one copy per host, not one per worker.

With Spark's own broadcast, each Python worker unpickles its own copy. Here a file is sent to each host
once (`SparkContext.addFile`, with Connect `addArtifacts`); the first worker there starts a broker, which puts
the batches into shared memory; every worker maps that memory and gets a `Table` that points into it.
"""

import atexit
import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import arrowipc
from arrowipc.dissociated.client import connect
from arrowipc.dissociated.uri import DissociatedUri, new_tag
from arrowipc.errors import UsageError
from arrowipc.spark.shipping import Shipped
from arrowipc.tables import Table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Seconds that a broker stays without clients, and that a worker waits for a broker to start.
IDLE = 60.0
START = 60.0

_attached: dict[str, Table] = {}
_lock = threading.Lock()
#: The brokers that this process has started, kept until they have ended.
_brokers: "list[subprocess.Popen[bytes]]" = []


def share(data: Any, *, spark: "SparkSession | None" = None) -> "Shared":
    """Make data available to the Python workers of a Spark application, once per host.

    Parameters
    ----------
    data : pyspark.sql.DataFrame, Table, RecordBatch, or what an `arrowipc` writer takes
        Side inputs such as lookup tables and model features. A data frame is collected to the driver.
    spark : SparkSession, optional
        Default: the active session. Without one, a UsageError is raised.

    Returns
    -------
    Shared
        Use its `value` inside the functions that you give to Spark.

    Examples
    --------
    >>> prices = share(spark.read.parquet("prices"))                                # doctest: +SKIP
    >>> def add_prices(batches):                                                    # doctest: +SKIP
    ...     lookup = pa.table(prices.value)
    ...     for batch in batches:
    ...         yield batch.append_column("price", lookup["price"].take(batch["id"]))
    """
    from pyspark.sql import DataFrame, SparkSession

    session = spark or SparkSession.getActiveSession()
    if session is None:
        raise UsageError("there is no active Spark session: give one with spark=")
    token = secrets.token_hex(8)
    folder = tempfile.mkdtemp(prefix="arrowipc-share-")
    # Keep the file until exit: each executor that starts requests all added files, and its tasks fail without them.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, f"{token}.arrow")
    with arrowipc.new_file(path, alignment=64, durable=False) as writer:
        writer.write(data.toArrow() if isinstance(data, DataFrame) else data)
    context = getattr(session, "sparkContext", None)
    if context is None:  # Spark Connect
        session.addArtifacts(str(path), file=True)
    else:
        context.addFile(str(path))
    shared = Shared(token, new_tag(), new_tag())
    shared._path = str(path)
    return shared


def _read(uri: DissociatedUri) -> Table:
    """Read the table: without validation from shared memory, with full validation if bodies were sent."""
    with connect(uri, validate="none", timeout=START) as reader:
        table = reader.read_all()
        if not reader.num_bodies_sent:
            return table
    del table
    with connect(uri, validate="full", timeout=START) as reader:
        return reader.read_all()


class Shared(Shipped):
    """Data in the memory of each host; made by `share`, small to pickle."""

    def __init__(self, token: str, want_data: int, free_data: int) -> None:
        self._token = token
        self._want_data = want_data
        self._free_data = free_data
        self._path: str | None = None  # where `share` was called; a client of Spark Connect has no `SparkFiles`

    @property
    def value(self) -> Table:
        """Table: in shared memory; the same object each time in the same process.

        Values in shared memory are not validated again: `share` wrote them, and the broker is checked to be a process
        of the same user. Values that were sent instead are validated fully (FormatError). An OSError means that
        the broker could not be started or reached; a PermissionError, that another user has taken its name.
        """
        with _lock:
            table = _attached.get(self._token)
            if table is None:
                table = _attached[self._token] = self._attach()
        return table

    def _attach(self) -> Table:
        uri = DissociatedUri(
            "arrowipc+unix",
            path=f"/@arrowipc-share-{os.getuid()}-{self._token}",
            want_data=self._want_data,
            free_data=self._free_data,
            remote_handle=b"memfd",
        )
        deadline = time.monotonic() + START
        broker: subprocess.Popen[bytes] | None = None
        while True:
            try:
                return _read(uri)
            except ConnectionRefusedError:
                # There is no broker yet, or the last one has just ended.
                if broker is None or broker.poll() is not None:
                    broker = self._start_broker(uri.path.removeprefix("/"))
                if time.monotonic() > deadline:
                    raise
            time.sleep(0.01)

    def _start_broker(self, socket: str) -> "subprocess.Popen[bytes]":
        from pyspark import SparkFiles

        path = self._path or SparkFiles.get(f"{self._token}.arrow")
        command = [sys.executable, "-m", "arrowipc.spark.broker", socket, path, str(IDLE)]
        # The broker needs the import path that Spark has set in this process. It gets its own session, because Spark
        # kills the process group of its workers.
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        broker = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        # Other users can read the arguments of a process: pass the secret tags through a pipe.
        assert broker.stdin is not None
        with contextlib.suppress(BrokenPipeError), broker.stdin as pipe:
            pipe.write(f"{self._want_data} {self._free_data}\n".encode())
        _brokers[:] = [broker, *(each for each in _brokers if each.poll() is None)]
        return broker

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_path": None}

    def destroy(self) -> None:
        """Release this process's table; the file that new executors request stays until the driver ends."""
        with _lock:
            _attached.pop(self._token, None)
