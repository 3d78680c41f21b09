"""Bodies on devices pass without being read: each case runs in a process that one read would end."""

from __future__ import annotations

import os
import signal
import subprocess

import pyarrow as pa
import pytest
from helpers.cdata import CDeviceArray, peek
from helpers.processes import run_python

import arrowipc as ipc
from arrowipc.dissociated.device import DeviceBatch, DeviceMemory

CASES = {
    "d095": [
        "a_received_body_is_never_read",
        "a_client_passes_bodies_on",
        "a_replaced_dictionary_is_that_of_its_batch",
        "empty_batches_are_nowhere",
        "mutated_metadata_never_leads_to_a_read",
    ],
    "d096": [
        "memory_lives_as_long_as_what_points_there",
        "what_needs_a_read_is_refused",
    ],
}

pytestmark = pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="memfd is Linux's")


def run(*names: str) -> subprocess.CompletedProcess[str]:
    code = "import sys; from dissociated import on_device; on_device.main(*sys.argv[1:])"
    return run_python(code, *names)


@pytest.fixture(scope="module")
def outcome() -> subprocess.CompletedProcess[str]:
    """All cases in one process: it says of each that it is through, and one read would have ended it."""
    return run(*CASES["d095"], *CASES["d096"])


@pytest.mark.nosanitize  # ends by a signal that the sanitizer answers in its own way
def test_d095_the_device_of_these_tests_cannot_be_read():
    assert run("a_read_ends_the_process").returncode == -signal.SIGSEGV


@pytest.mark.parametrize(("case", "name"), [(case, name) for case, names in CASES.items() for name in names])
def test_d095_d096_bodies_are_never_read_and_devices_kept(case, name, outcome):
    assert f"{name} is done" in outcome.stdout, outcome.stderr


def test_d096_batches_on_the_cpu_say_so():
    batch = ipc.RecordBatch.from_arrow(pa.record_batch({"x": [1, None], "y": ["a", "b"]}))
    for exported in (batch, batch["y"]):
        pair = exported.__arrow_c_device_array__()
        device = peek(pair[1], CDeviceArray)
        assert (device.device_type, device.device_id, device.sync_event) == (1, -1, None)
        assert list(device.reserved) == [0, 0, 0]
        exported.__arrow_c_device_array__(None, later=None)
        with pytest.raises(NotImplementedError, match="'later'"):
            exported.__arrow_c_device_array__(None, later=1)
    assert pa.RecordBatch._import_from_c_device_capsule(*batch.__arrow_c_device_array__()).num_rows == 2


def test_device_memory_is_a_place():
    for address, nbytes in ((2**64 - 1, 2), (0, -1)):
        with pytest.raises(ipc.UsageError, match="no memory"):
            DeviceMemory(address, nbytes, 2)
    with pytest.raises(ipc.UsageError, match="made by"):
        DeviceBatch()
