"""Objects work until the interpreter is gone: what their methods import was imported when they were used before."""

import pytest
from helpers import processes
from project.test_architecture import UPWARD


@pytest.mark.thread_unsafe
def test_what_was_imported_stays_until_the_interpreter_is_gone() -> None:
    done = processes.run_module("public.at_the_end")
    assert done.stderr == ""
    first, *lines = done.stdout.splitlines()
    assert first.startswith("says so: ")
    assert [line for line in lines if ": " in line] == []
    wanted = {f"arrowipc.{module}" for modules in UPWARD.values() for module in modules}
    assert wanted <= {*lines}
