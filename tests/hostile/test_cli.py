"""Whatever the bytes are, a command ends with words and an exit code, never with a traceback."""

from pathlib import Path

import pytest
from fuzz.corpus import REGRESSIONS
from helpers import mutate
from helpers.arrays import FORMS, ipc_bytes, mixed_batch
from helpers.terminal import run

pytest.importorskip("click")
pytest.importorskip("rich")

COMMANDS = ("schema", "head", "stat", "messages", "browse", "check", "recover", "diff", "cat", "convert")


def seeds() -> list[bytes]:
    batches = [mixed_batch(2, 3), mixed_batch(5, 2)]
    return [ipc_bytes(batches, form, compression=codec) for form in FORMS for codec in (None, "zstd")]


def exit_code(command: str, path: Path, folder: Path) -> int:
    """Run a command on a file, which ends with words and one of the exit codes that the help lists."""
    rest = {
        "browse": ["--force", "-o", str(folder / "x.html")],
        "diff": [str(path)],
        "cat": ["--force", "-o", str(folder / "x.arrow")],
        "convert": ["--force", str(folder / "y.arrow"), "--dictionary", "*"],
        "recover": ["--force", "--resync", "-o", str(folder / "z.arrow")],
    }.get(command, [])
    found = run(command, path, *rest)
    # 2: options that fit no column, once names are broken.
    assert found.code in (0, 1, 2, 4), found.err
    assert "Traceback" not in found.err
    assert "bug of arrowipc" not in found.err, found.err
    assert found.code in (0, 1) or found.err.startswith("arrowipc: ")
    return found.code


@pytest.mark.parametrize("command", COMMANDS)
def test_mutants_and_regression_inputs_end_in_words(command, tmp_path):
    path = tmp_path / "input"
    failures = 0
    for data in [*mutate.mixed(seeds(), 7, 60), b"", b"ARROW1", b"ARROW1\0\0" * 3, bytes(64), b"\xff" * 64]:
        path.write_bytes(data)
        failures += exit_code(command, path, tmp_path) != 0
    assert failures > 10
    for path in REGRESSIONS.glob("*.bin"):
        exit_code(command, path, tmp_path)


def test_a_real_process_prints_the_path_the_reason_and_what_to_do(tmp_path):
    path = tmp_path / "broken.arrows"
    path.write_bytes(seeds()[0][:-30])
    for command in ("head", "stat", "messages"):
        found = run(command, path, *(["-n", 100] if command == "head" else []))
        assert found.code == 1
        assert f"arrowipc: {path}: " in found.err  # behind how far it came, where that took a second
        assert f"arrowipc recover {path}" in found.err
        assert "Traceback" not in found.err


def test_what_is_no_arrow_at_all_is_not_sent_to_recover(tmp_path):
    path = tmp_path / "table.parquet"
    path.write_bytes(b"PAR1" + bytes(100) + b"PAR1")
    found = run("head", path)
    assert found.code == 1
    assert "Parquet" in found.err
    assert "recover" not in found.err
