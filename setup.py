"""How the compiled modules of arrowipc are built; everything else about the package is in pyproject.toml.

Environment switches, each with its own build directory so that builds never mix:

* ``ARROWIPC_SANITIZE=1``: AddressSanitizer and UBSan (``make sanitize`` runs the suite under them);
* ``ARROWIPC_COVERAGE=1``: blocks of code and comparisons report to the fuzzer (``make fuzz``); such modules
  load under the fuzzer alone, which defines what they call;
* ``ARROWIPC_TRACE=1``: line tracing for coverage and profilers, and the C macro ``ARROWIPC_TRACE``;
* ``ARROWIPC_ANNOTATE=1``: also write Cython's annotated HTML beside the generated C.
"""

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

#: Every compiled module, in the order of the import direction (CONTRIBUTING.md).
MODULES = (
    "_core",
    "_message",
    "_tables",
    "_serialize",
    "_schema",
    "_values",
    "_compare",
    "_array",
    "_blocks",
    "_body",
    "_validate",
    "_grow",
    "_concat",
    "_trim",
    "_compress",
    "_decode",
    "_stream",
    "_file",
    "_capsule",
    "_foreign_schema",
    "_import",
    "_columnwise",
    "_leaves",
    "_build",
    "_unify",
    "_dictionaries",
    "_encode",
    "_sink",
    "_statistics",
    "_emit",
    "_alike",
    "_cells",
    "_pick",
    "_routes",
    "_inflate",
    "_merge",
    "_recode",
    "_payload",
    "_runs",
    "_subset",
    "_pack",
    "_framed",
    "_strided",
    "_tensor",
    "_assemble",
    "_sparse",
    "_sparse_dense",
    "_sparse_message",
    "_pairs",
    "_ucx",
    "_device",
)

#: Modules without a loop that anybody waits for: small instead of fast, which halves some of them.
COLD = frozenset(
    {
        "_assemble",
        "_build",
        "_cells",
        "_columnwise",
        "_device",
        "_file",
        "_framed",
        "_merge",
        "_pairs",
        "_routes",
        "_serialize",
        "_sparse_message",
        "_tensor",
        "_ucx",
    }
)

#: Modules of many short steps: unrolling their loops makes them a fifth larger, and nothing faster.
GLUE = frozenset(
    {
        "_array",
        "_capsule",
        "_compress",
        "_decode",
        "_dictionaries",
        "_emit",
        "_foreign_schema",
        "_import",
        "_leaves",
        "_runs",
        "_schema",
        "_sink",
        "_stream",
        "_unify",
    }
)

#: The Cython directives of all modules; a module overrides one only with its reason beside it.
DIRECTIVES = {
    "language_level": 3,
    "boundscheck": False,  # indices are proven by the walk before the kernels run
    "wraparound": False,
    "cdivision": True,  # C division: our divisors are constants or checked
    "initializedcheck": False,
    "embedsignature": True,
    "auto_pickle": False,  # no second way to fill our C structs
    "autotestdict": False,  # tests/test_examples.py reads the docstrings themselves
}

#: Compilers started side by side: the machines that build us have two cores.
JOBS = 2


def switch(name: str) -> bool:
    """Return whether the environment switch ``name`` is on."""
    return os.environ.get(name, "0") not in ("", "0")


SANITIZE = switch("ARROWIPC_SANITIZE")
COVERAGE = switch("ARROWIPC_COVERAGE")
TRACE = switch("ARROWIPC_TRACE")
ANNOTATE = switch("ARROWIPC_ANNOTATE")
SWITCHES = {"sanitize": SANITIZE, "coverage": COVERAGE, "trace": TRACE}
VARIANT = "-".join(name for name, on in SWITCHES.items() if on) or "release"
BUILD_BASE = Path("build") / VARIANT


def compiler_flags() -> tuple[list[str], list[str]]:
    """Return the flags for the compiler and for the linker."""
    if os.name != "posix":
        return [], []
    compile_args = [
        # One buffer is read as bytes by one kernel and as 64-bit words by the next, and the words of a
        # payload may start at any address: type-based alias analysis would reorder such loads and stores.
        "-fno-strict-aliasing",
        # A failed navigation step raises before its out-parameter is read; gcc cannot know that the call that
        # raises never returns 0, and would bury other warnings.
        "-Wno-maybe-uninitialized",
    ]
    link_args: list[str] = []
    if SANITIZE:
        sanitizers = "-fsanitize=address,undefined"
        compile_args += ["-g", "-O1", "-fno-omit-frame-pointer"]
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
    return ["-Os"] if name in COLD else ["-O2"] if name in GLUE else []


def extensions() -> list[Extension]:
    """Return one extension per name in `MODULES`; a missing source is an error of the build, not skipped."""
    compile_args, link_args = compiler_flags()
    macros = [("CYTHON_TRACE_NOGIL", "1"), ("ARROWIPC_TRACE", "1")] if TRACE else []
    return [
        Extension(
            f"arrowipc.{name}",
            [f"arrowipc/{name}.pyx"],
            define_macros=macros,
            extra_compile_args=[*compile_args, *optimization(name)],
            extra_link_args=link_args,
            depends=["setup.py"],  # other flags: other objects
        )
        for name in MODULES
    ]


class BuildExtensions(build_ext):
    """Translate with Cython when the modules are built, not when setup.py is read (an sdist needs no C)."""

    def run(self) -> None:
        """Write the C files to the build directory, then compile them."""
        from Cython.Build import cythonize

        c_dir = BUILD_BASE / "c"
        generated = [c_dir / "arrowipc" / f"{name}.c" for name in MODULES]
        # Cython looks at the sources only; the directives are part of what it would have to look at.
        changed = Path(__file__).stat().st_mtime
        stale = any(path.stat().st_mtime < changed for path in generated if path.exists())
        translated = cythonize(
            [Extension(extension.name, list(extension.sources)) for extension in self.extensions],
            build_dir=str(c_dir),
            nthreads=JOBS,
            force=stale or ANNOTATE or None,  # None: CYTHON_FORCE_REGEN decides
            annotate=ANNOTATE,
            compiler_directives=DIRECTIVES | ({"linetrace": True} if TRACE else {}),
        )
        sources = {extension.name: extension.sources for extension in translated}
        for extension in self.extensions:
            extension.sources = sources[extension.name]
        super().run()


class BuildPython(build_py):
    """Copy the Python part, after removing what an earlier build left behind for the wheel to pick up."""

    def run(self) -> None:
        """Empty the library directory except for the compiled modules that are still listed, then copy."""
        kept = {f"{name}." for name in MODULES}
        for path in Path(self.build_lib).rglob("*"):
            listed = path.suffix == ".so" and any(path.name.startswith(stem) for stem in kept)
            if path.is_file() and not listed:
                path.unlink()
        super().run()


setup(
    ext_modules=extensions(),
    cmdclass={"build_ext": BuildExtensions, "build_py": BuildPython},
    options={"build": {"build_base": str(BUILD_BASE)}, "build_ext": {"parallel": JOBS}},
)
