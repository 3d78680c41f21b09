"""How the compiled modules of arrowipc are built; everything else about the package is in pyproject.toml.

Environment switches, each with its own directory of objects so that builds never mix:

* ``ARROWIPC_SANITIZE=1``: AddressSanitizer and UBSan (``make sanitize`` runs the suite under them);
  ``ARROWIPC_SANITIZE=thread``: ThreadSanitizer, for a free-threaded CPython that was built with it (docs/threads.md);
* ``ARROWIPC_COVERAGE=1``: blocks of code and comparisons report to the fuzzer (``make fuzz``); such modules
  load under the fuzzer alone, which defines what they call;
* ``ARROWIPC_TRACE=1``: line tracing for coverage and profilers, and the C macro ``ARROWIPC_TRACE``;
* ``ARROWIPC_ANNOTATE=1``: also write Cython's annotated HTML beside the generated C.

``CYTHON_CACHE_DIR`` names a folder in which generated C outlives the build directory (.ci/run).
"""

import gc
import hashlib
import os
import re
import shlex
import subprocess
import sys
import sysconfig
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

PACKAGE = Path("arrowipc")
JVM = Path("jvm/src/main")

#: Every compiled module by its dotted name; a `.pyx` file is one. `arrowipc/__init__.py` lists them too: it finds them.
MODULES = sorted(".".join(path.with_suffix("").parts) for path in PACKAGE.rglob("*.pyx"))

#: Whose file holds all of them: alone, each would take 15 KB and a tenth of a millisecond more to load.
LIBRARY = "arrowipc._core"

#: How the modules of a package are optimized, if not with -O3: -O2 for many short steps, which unrolled loops
#: make a fifth larger and no faster; -Os where nobody waits for a loop, which halves some of them.
PACKAGES = {
    "arrowipc.cdata": "-O2",
    "arrowipc.dissociated": "-Os",
    "arrowipc.encode": "-O2",
    "arrowipc.maps": "-Os",
    "arrowipc.values": "-O2",
}

#: On the way of a batch, loops and functions begin where the processor fetches them at once: wherever else a change
#: moved them, batches took 2 to 10 % longer.
ALIGNED = " -falign-functions=64 -falign-loops=32"

#: Modules that are built otherwise than the others of their package.
EXCEPTIONS = {
    "arrowipc._core": "-O3" + ALIGNED,
    "arrowipc.cdata.import_table": "-Os",
    "arrowipc.columns.array": "-O2",
    "arrowipc.columns.elements": "-O2",
    "arrowipc.columns.record_batch": "-O2" + ALIGNED,
    "arrowipc.decode.decoders": "-O2" + ALIGNED,
    "arrowipc.decode.decompress": "-O2",
    "arrowipc.decode.file_decoder": "-O2",
    "arrowipc.decode.from_buffers": "-Os",
    "arrowipc.decode.from_feather": "-Os",
    "arrowipc.decode.message_index": "-O2",
    "arrowipc.decode.stream_decoder": "-O2" + ALIGNED,
    "arrowipc.distinct.memo_table": "-O2",
    "arrowipc.distinct.unifier": "-O2",
    "arrowipc.encode.batch_encoder": "-O3",
    "arrowipc.metadata.schema_reader": "-O2",
    "arrowipc.metadata.schema_tables": "-O2",
    "arrowipc.payloads.cells": "-Os",
    "arrowipc.payloads.group_runs": "-O2",
    "arrowipc.payloads.schema_mapping": "-Os",
    "arrowipc.tensors.dense": "-Os",
    "arrowipc.tensors.message": "-Os",
    "arrowipc.tensors.sparse_message": "-Os",
    "arrowipc.values.from_python": "-Os",
    "arrowipc.values.nested": "-Os",
    "arrowipc.values.row_reader": "-O2",
}

#: The Cython directives of all modules; a module overrides one only with its reason beside it.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,  # indices are proven by the walk before the kernels run
    "wraparound": False,
    "cdivision": True,  # C division: our divisors are constants or checked
    "initializedcheck": False,
    "embedsignature": True,
    # Plain functions of C: Cython's own kind is a tenth of the library and slower to make and to call. Signatures are
    # in the form that `inspect.signature` reads.
    "binding": False,
    "embedsignature.format": "clinic",
    "auto_pickle": False,  # no second way to fill our C structs
    "freethreading_compatible": True,  # docs/threads.md
    "autotestdict": False,  # tests/project/test_docstrings.py reads the docstrings themselves
}

#: Compilers started side by side: one for each processor that we may use.
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def switch(name: str) -> bool:
    """Return whether the environment switch ``name`` is on."""
    return os.environ.get(name, "0") not in ("", "0")


SANITIZE = switch("ARROWIPC_SANITIZE")
SANITIZERS = "thread" if os.environ.get("ARROWIPC_SANITIZE") == "thread" else "address,undefined"
COVERAGE = switch("ARROWIPC_COVERAGE")
TRACE = switch("ARROWIPC_TRACE")
ANNOTATE = switch("ARROWIPC_ANNOTATE")
SWITCHES = {"sanitize": SANITIZE, "thread": SANITIZERS == "thread", "coverage": COVERAGE, "trace": TRACE}
VARIANT = "-".join(name for name, on in SWITCHES.items() if on) or "release"
BUILD_BASE = Path("build") / VARIANT


def compiler_flags() -> tuple[list[str], list[str]]:
    """Return the flags for the compiler, of all modules, and for the linker."""
    if os.name != "posix":
        return [], []
    compile_args = [
        # One buffer is read as bytes by one kernel and as 64-bit words by the next, and the words of a
        # payload may start at any address: type-based alias analysis would reorder such loads and stores.
        "-fno-strict-aliasing",
        # A failed navigation step raises before its out-parameter is read; gcc cannot know that the call that
        # raises never returns 0, and would bury other warnings. clang does not know this one, and warns of inline
        # functions of a header that a module does not call.
        "-Wno-unknown-warning-option",
        "-Wno-maybe-uninitialized",
        "-Wno-unused-function",
    ]
    link_args: list[str] = []
    if SANITIZE:
        sanitizers = f"-fsanitize={SANITIZERS}"
        # Lines of functions are enough for a report; all about variables takes a third of the compiler's time.
        compile_args += ["-g1", "-Og", "-fno-omit-frame-pointer"]
        compile_args += [sanitizers, "-fno-sanitize-recover=undefined"]
        # setuptools passes -fwrapv, which defines signed overflow and so hides it from UBSan; the last wins.
        compile_args += ["-fno-wrapv"]
        link_args += [sanitizers]
    elif TRACE or COVERAGE:
        compile_args += ["-O1", "-g"]
    else:
        # No tables for unwinding: nothing here throws, and they are a twentieth of the size.
        compile_args += ["-O3", "-g0", "-fno-asynchronous-unwind-tables"]
        if sys.platform == "linux":
            # No symbol tables, which double the installed size, and no pages of padding between segments.
            link_args += ["-Wl,-s", "-Wl,-z,noseparate-code"]
    if COVERAGE:
        compile_args += ["-fsanitize-coverage=trace-pc,trace-cmp"]
    return compile_args, link_args


def optimization(name: str) -> list[str]:
    """Return what a module overrides of the flags of all, in a build that is measured."""
    if VARIANT != "release" or os.name != "posix":
        return []
    package = ".".join(name.split(".")[:2])
    return (EXCEPTIONS.get(name) or PACKAGES.get(package, "-O3")).split()


def cache_for(directives: dict[str, object]) -> str | None:
    """Return where C is kept for later builds, if the environment says so: Cython does not compare directives."""
    folder = os.environ.get("CYTHON_CACHE_DIR")
    return folder and os.path.join(folder, hashlib.sha256(repr(sorted(directives.items())).encode()).hexdigest()[:16])


NO_COMPILER = """
arrowipc is being built from source, which needs a C compiler and Python's headers.
{reason}

  Debian, Ubuntu   apt-get install gcc libc6-dev python3-dev
  Fedora, RHEL     dnf install gcc python3-devel
  Alpine           apk add gcc musl-dev python3-dev
  macOS            xcode-select --install
  conda            conda install c-compiler

Another compiler is chosen by the environment variable CC.
"""


UNSUPPORTED_HOST = """
arrowipc cannot be built for this host: {reason}. It runs on 64-bit little-endian Linux and macOS.
"""
#: What the preprocessor leaves of each line says for which hosts there are no kernels.
PROBE = """
#include <Python.h>
#if PY_BIG_ENDIAN
arrowipc_refuses: its kernels load little-endian numbers as they are, and it is big-endian
#elif __SIZEOF_POINTER__ < 8
arrowipc_refuses: its kernels map files and count bytes in 64 bits, and it has 32
#endif
"""


def require_host() -> None:
    """End the build before it has begun where it would fail at its first C file, a minute later."""
    if os.name != "posix":
        sys.exit(UNSUPPORTED_HOST.format(reason="it maps files and shares memory by calls of POSIX"))
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = [f"-I{sysconfig.get_path(name)}" for name in ("include", "platinclude")]
    command = [*compiler, "-E", *include, "-x", "c", "-"]
    try:
        done = subprocess.run(command, input=PROBE, capture_output=True, text=True)
    except OSError as error:
        sys.exit(NO_COMPILER.format(reason=f"{compiler[0]} cannot be run: {error.strerror}"))
    if done.returncode != 0:
        said = done.stderr.strip() or f"exit status {done.returncode}"
        sys.exit(NO_COMPILER.format(reason=f"{compiler[0]} cannot compile for {sys.executable}:\n{said}"))
    refused = done.stdout.partition("arrowipc_refuses: ")[2]
    if refused:
        sys.exit(UNSUPPORTED_HOST.format(reason=refused.splitlines()[0]))


class BuildExtensions(build_ext):
    """Translate with Cython when the modules are built, not when setup.py is read (an sdist needs no C)."""

    def run(self) -> None:
        """Write the C files to the build directory, then compile them."""
        require_host()
        super().run()

    def build_extension(self, library: Extension) -> None:
        """Compile what changed, each module with its own flags, and link the library."""
        with ThreadPoolExecutor(JOBS) as threads:
            library.extra_objects = list(threads.map(self.compile_module, MODULES, self.translate()))
        library.depends = library.extra_objects
        super().build_extension(library)

    def translate(self) -> list[str]:
        """Return the C file of each module, written anew where its sources are newer."""
        from Cython.Build import cythonize

        # One C for all builds but those that trace lines: translating is a third of a build. Our source beside it, as
        # comments, would be a third of the C; annotated pages show it to those who look for something.
        c_dir = Path("build/traced-c" if TRACE else "build/c")
        tracing = {"linetrace": TRACE, "emit_code_comments": ANNOTATE}
        generated = [c_dir / (name.replace(".", "/") + ".c") for name in MODULES]
        # Cython looks at the sources only; the directives are part of what it would have to look at.
        changed = Path(__file__).stat().st_mtime
        stale = any(path.stat().st_mtime < changed for path in generated if path.exists())
        # The collector would walk all syntax trees again and again: a fifth of the time. Its processes inherit this.
        gc.set_threshold(10_000)
        cythonize(
            [Extension(name, [name.replace(".", "/") + ".pyx"]) for name in MODULES],
            build_dir=str(c_dir),
            nthreads=JOBS,
            cache=cache_for(DIRECTIVES | tracing),
            force=stale or ANNOTATE or None,  # None: CYTHON_FORCE_REGEN decides
            annotate=ANNOTATE,
            compiler_directives=DIRECTIVES | tracing,
        )
        return [str(path) for path in generated]

    def compile_module(self, name: str, source: str) -> str:
        """Return the object file of a module, made anew if its C file or the flags are newer."""
        (compiled,) = self.compiler.object_filenames([source], output_dir=self.build_temp)
        made = Path(compiled)
        changed = max(Path(path).stat().st_mtime for path in (source, __file__))
        if self.force or not made.exists() or made.stat().st_mtime < changed:
            self.compiler.compile(
                [source],
                output_dir=self.build_temp,
                macros=MACROS,
                extra_postargs=[*COMPILE_ARGS, *optimization(name)],
            )
        return compiled


class BuildPython(build_py):
    """Copy the Python part, after removing what an earlier build left behind for the wheel to pick up."""

    def run(self) -> None:
        """Empty the library directory except for the compiled library, then copy; Spark's part with its sources."""
        for path in Path(self.build_lib).rglob("*"):
            if path.is_file() and not path.name.startswith("_core."):
                path.unlink()
        super().run()
        if self.editable_mode:
            return  # the checkout has them
        for source, target in self.spark_sources().items():
            self.mkpath(str(target.parent))
            self.copy_file(str(source), str(target))

    def spark_sources(self) -> dict[Path, Path]:
        """Return what `arrowipc.spark.jar` compiles where a wheel has no jar, and where it goes."""
        into = Path(self.build_lib, "arrowipc/spark/jvm")
        return {path: into / path.relative_to(JVM) for path in sorted(JVM.rglob("*")) if path.is_file()}

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        """Return all files that are installed."""
        return [*super().get_outputs(include_bytecode), *map(str, self.spark_sources().values())]


def readme() -> str:
    """Return README.md as a package index shows it: its links, which lead to files of the repository, are absolute."""
    source = tomllib.loads(Path("pyproject.toml").read_text())["project"]["urls"]["Source"]

    def absolute(link: re.Match[str]) -> str:
        return f"{link[1]}({source}/{'raw' if link[1][0] == '!' else 'blob'}/main/{link[2]})"

    return re.sub(r"(!?\[[^\]]*\])\((?!\w+:|#)([^)\s]+)\)", absolute, Path("README.md").read_text())


# Compressed names would save a fiftieth of the library, and each module's import would unpack its own.
MACROS = [("CYTHON_COMPRESS_STRINGS", "0")]
if TRACE:
    MACROS += [("CYTHON_TRACE_NOGIL", "1"), ("ARROWIPC_TRACE", "1")]
COMPILE_ARGS, LINK_ARGS = compiler_flags()

setup(
    long_description=readme(),
    long_description_content_type="text/markdown",
    ext_modules=[Extension(LIBRARY, [], extra_link_args=LINK_ARGS)],
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPython},
    options={"build": {"build_base": str(BUILD_BASE)}},
)
