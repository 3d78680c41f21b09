"""What is installed and published: parts, size, cost of the import, the source archive, and what git tracks."""

import importlib
import importlib.metadata
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import tomllib
from datetime import datetime
from pathlib import Path

import pytest
from helpers.arrays import ipc_bytes
from helpers.processes import printed, run_function, run_python

import arrowipc

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = Path(arrowipc.__file__).resolve().parent

#: Bound for everything that `pip install arrowipc` writes for us, dependencies and the jar aside.
INSTALLED_BYTES = 5_600_000
#: The jar for Spark, and its sources.
JAR_BYTES = 720_000
#: What setuptools adds to the source archive.
GENERATED = re.compile(r"PKG-INFO|setup\.cfg|arrowipc\.egg-info/.*")


def compiled_modules() -> set[str]:
    """Return the paths in the package, without endings, of what is compiled: one per .pyx file of the checkout."""
    checkout = ROOT / "arrowipc"
    return {str(path.relative_to(checkout).with_suffix("")) for path in checkout.rglob("*.pyx")}


def installed_files() -> list[Path]:
    """Return the files of the installed package; skip where the checkout itself is installed."""
    if PACKAGE.is_relative_to(ROOT) and PACKAGE == ROOT / "arrowipc":
        pytest.skip("the checkout itself is installed (make dev): there is no wheel to look into")
    return sorted(path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def python(code: str) -> str:
    """Run code in a fresh interpreter and return what it prints."""
    return str(printed(run_python(code, env=None))).strip()


# The wheel.


def test_all_compiled_modules_are_one_library() -> None:
    built = [path for path in installed_files() if path.suffix == ".so"]
    assert [path.relative_to(PACKAGE).as_posix().partition(".")[0] for path in built] == ["_core"]


def test_every_compiled_module_is_found_and_no_other() -> None:
    dotted = {f"arrowipc.{name.replace(os.sep, '.')}" for name in compiled_modules()}
    assert arrowipc._Finder.names == dotted
    # The library has one function for each, by the last part of its name.
    assert len({name.rpartition(".")[2] for name in dotted}) == len(dotted)
    for name in sorted(dotted):
        module = importlib.import_module(name)
        assert module.__name__ == name
        assert module.__file__ == arrowipc._Finder.library
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("arrowipc.decode.nothing")


def test_python_files_are_found_and_other_modules_left_to_the_interpreter() -> None:
    find, folder = arrowipc._Finder.find_spec, Path(arrowipc.__path__[0], "sources")
    package, module = find("arrowipc.sources"), find("arrowipc.sources.source")
    assert package.submodule_search_locations == [str(folder)]
    assert [Path(each.origin) for each in (package, module)] == [folder / "__init__.py", folder / "source.py"]
    assert module.submodule_search_locations is None
    assert not any(map(find, ("json", "arrowipc", "arrowipc.Errors", "arrowipc.nothing")))


def test_sources_that_are_not_built_say_so(tmp_path: Path) -> None:
    shutil.copytree(PACKAGE, tmp_path / "arrowipc", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONSAFEPATH": "1"}
    done = run_python("import arrowipc; arrowipc.open_stream", env=environment)
    library = tmp_path / "arrowipc" / Path(arrowipc._Finder.library).name
    assert f"ImportError: {library} is not built: run `make dev`" in done.stderr


def test_every_compiled_module_has_a_stub() -> None:
    assert {name for name in compiled_modules() if not (PACKAGE / f"{name}.pyi").is_file()} == set()


def test_the_wheel_holds_what_runs_and_what_type_checkers_read() -> None:
    suffixes = {path.suffix for path in installed_files() if path.name != "py.typed"}
    # What Spark loads as a data source is named in a file that Java's ServiceLoader wants.
    assert suffixes <= {".py", ".pyi", ".so", ".jar", ".html", ".scala", ".DataSourceRegister"}
    jvm = ROOT / "jvm/src/main"
    assert {path.relative_to(jvm) for path in jvm.rglob("*") if path.is_file()} == {
        path.relative_to(PACKAGE / "spark/jvm") for path in installed_files() if "jvm" in path.parts
    }
    assert (PACKAGE / "py.typed").is_file()
    texts = {".py", ".pyi", ".html"}
    names = {path.relative_to(PACKAGE) for path in installed_files() if path.suffix in texts}
    checkout = ROOT / "arrowipc"
    sources = {path.relative_to(checkout) for path in checkout.rglob("*") if path.suffix in texts}
    assert names == sources, "the wheel and the checkout differ: built from another state?"


@pytest.mark.nosanitize  # instrumented code with debug information
def test_installed_size() -> None:
    # What Cython makes for later Pythons is larger: by 3 % for 3.12 and 3.13, by 9 % for 3.14. Debian's Python has
    # extensions protect their stacks, which adds 1 %.
    most = INSTALLED_BYTES * (1.1 if sys.version_info >= (3, 12) else 1)
    sizes = {path: path.stat().st_size for path in installed_files()}
    jar = sum(sizes.pop(path) for path in [*sizes] if path.suffix in (".jar", ".scala"))
    assert sum(sizes.values()) <= most
    assert jar <= JAR_BYTES


def test_the_modules_under_test_are_the_instrumented_ones() -> None:
    wanted = os.environ.get("ARROWIPC_SANITIZED") == "1"
    for path in PACKAGE.rglob("*.so"):
        assert (b"__asan_init" in path.read_bytes()) == wanted, path


@pytest.mark.nosanitize  # sanitizers bring calls of their own
def test_an_old_c_library_has_all_that_is_called() -> None:
    # The oldest glibc for which pip takes wheels of manylinux2014; the build machine's own may be ten years newer.
    for path in PACKAGE.rglob("*.so"):
        versions = {tuple(map(int, found)) for found in re.findall(rb"GLIBC_(\d+)\.(\d+)", path.read_bytes())}
        assert all(version <= (2, 17) for version in versions), versions


def test_version_is_stated_once_more_and_equal() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert arrowipc.__version__ == project["version"] == importlib.metadata.version("arrowipc")


# Importing.


def test_a_first_batch_loads_nothing_that_it_does_not_need() -> None:
    # typing alone takes longer than all of ours, `collections` a seventh of it.
    read = "import sys, arrowipc as ipc; ipc.open(bytes.fromhex({data!r})).read_all().to_pydict(); print(*sys.modules)"
    data = ipc_bytes({"x": [1], "s": ["a"], "at": [datetime(2020, 2, 29)]}).hex()
    loaded = python(read.format(data=data)).split()
    assert {"typing", "re", "dataclasses", "collections", "importlib", "datetime", "math"}.isdisjoint(loaded)
    assert {"arrowipc.sources.remote", "arrowipc.types"}.isdisjoint(loaded)
    optional = {"numpy", "pyarrow", "pandas", "polars", "pyspark", "zstandard", "backports", "lz4", "fsspec", "rich"}
    assert optional.isdisjoint(loaded)


def test_an_isolated_interpreter_finds_the_compiled_modules() -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import arrowipc; print(arrowipc.Message.__module__)"
    )
    done = subprocess.run([sys.executable, "-I", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "arrowipc.decode.framing", done.stderr


def test_a_second_interpreter_gets_an_import_error() -> None:
    inner = f"import sys; sys.path[:] = {sys.path!r}\nimport arrowipc\ntry:\n    arrowipc.open_stream\n"
    inner += "except ImportError:\n    print('refused', flush=True)"
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    code = (
        f"import {module} as several, arrowipc; arrowipc.open_stream; several.run_string(several.create(), {inner!r})"
    )
    assert python(code) == "refused"


def test_import_of_the_data_source_module_is_trivial() -> None:
    # An error in any pyspark_* module hides all of them from Spark, so ours must need nothing that can fail.
    loaded = python("import sys, pyspark_arrowipc; print(*sys.modules)").split()
    assert {"numpy", "pyarrow", "arrowipc._core"}.isdisjoint(loaded)


def tracked() -> list[str]:
    listing = subprocess.run(["git", "-C", str(ROOT), "ls-files"], capture_output=True, text=True)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    return [name for name in listing.stdout.splitlines() if (ROOT / name).is_file()]


def test_the_source_archive_holds_what_git_tracks(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    names = set(tracked())
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    command = [sys.executable, "setup.py", "-q", "sdist", "--dist-dir", "made"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (archive,) = (tmp_path / "made").iterdir()
    with tarfile.open(archive) as opened:
        files = {member.name.partition("/")[2]: member for member in opened if member.isfile()}
        described = opened.extractfile(files["PKG-INFO"]).read().decode()  # type: ignore[union-attr]
    assert {name for name in files if not GENERATED.fullmatch(name)} == names
    check_links(described)


def check_links(described: str) -> None:
    """An index shows README alone: its links are absolute, lead to files that exist, and pictures to their bytes."""
    assert "Description-Content-Type: text/markdown" in described
    source = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Source"]
    links = re.findall(r"(!?)\[[^\]]*\]\(([^)\s]+)\)", described.partition("\n\n")[2])
    ours = [(mark, each.removeprefix(source)) for mark, each in links if each.startswith(source)]
    assert len(ours) > 10
    assert all(each.startswith("https://") for _, each in links)
    for mark, each in ours:
        kind, path = re.fullmatch(r"/(blob|raw)/main/([^#]+)(?:#.*)?", each).groups()  # type: ignore[union-attr]
        assert (ROOT / path).exists(), each
        assert (kind == "raw") == bool(mark), each


#: Compilers, and what is said of them.
CANNOT_BUILD = {
    "no-such-compiler": "no-such-compiler cannot be run",
    "cc -nostdinc": "cc cannot compile",
    "cc -DWORDS_BIGENDIAN=1": "cannot be built for this host: its kernels load little-endian numbers",
    "cc -U__SIZEOF_POINTER__ -D__SIZEOF_POINTER__=4": "cannot be built for this host: its kernels map files",
}


def build_with(*compilers: str) -> None:
    """Build with one after the other; print as JSON what each build says at its end."""
    sys.argv = ["setup.py", "-q", "build_ext"]
    for os.environ["CC"] in compilers:
        try:
            runpy.run_path("setup.py", run_name="__main__")
        except SystemExit as error:
            print(json.dumps(str(error)))


def test_what_cannot_be_built_is_said_before_anything_is_translated(tmp_path: Path) -> None:
    pytest.importorskip("setuptools", "77")
    if shutil.which("cc") is None:
        pytest.skip("there is no compiler")
    # Its build directory would be the checkout's; Cython is not even imported.
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE", "pyspark_arrowipc.py"):
        shutil.copy2(ROOT / name, tmp_path)
    (tmp_path / "arrowipc").mkdir()
    (tmp_path / "arrowipc/x.pyx").write_text("this is no Cython\n")
    said = map(json.loads, printed(run_function(build_with, *CANNOT_BUILD, cwd=tmp_path)).splitlines())
    advice = ("apt-get install gcc", "dnf", "apk", "xcode-select", "CC")
    for words, found in zip(CANNOT_BUILD.values(), said, strict=True):
        assert words in found
        assert all(word in found for word in advice) or "64-bit little-endian Linux and macOS" in found
    assert not (tmp_path / "build/c").exists()


def test_workflow_actions_are_pinned_by_hash() -> None:
    # A tag can be moved to other code; the comment says which version the hash is.
    workflows = "\n".join(path.read_text() for path in (ROOT / ".github/workflows").glob("*.yml"))
    used = [each for each in re.findall(r"uses: (.*)", workflows) if not each.startswith("./")]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each)] == []


def test_no_path_of_a_machine_in_tracked_files() -> None:
    places = [place for place in (ROOT.parent, Path.home()) if place not in (Path("/"), Path("/tmp"))]
    own = "|".join(re.escape(str(place)) for place in places)
    named = re.compile(rf"(?<![\w.])(?:/home/[a-z]\w*|/Users/[a-z]\w*|{own or '/root'})/".encode())
    assert [name for name in tracked() if named.search((ROOT / name).read_bytes())] == []
