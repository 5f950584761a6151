# Two commands do everything on a fresh machine: `make demo` and `make test`. The build itself is CMake's; this is the short way.
PRESET ?= release
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
export JOBS
BUILD := build/$(PRESET)
PROGRAM := $(BUILD)/pullback
PYTHON := build/venv/bin/python
PYTEST_ARGS ?=

.PHONY: help setup check build build-extension configure build-tests build-cases demo first-hour test unit oracle golden check-style threads validate validate-quick check-all bench bench-contacts bench-whole-body bench-sparse bench-products bench-sweep bench-loop bench-elementary bench-batch bench-energy bench-deform bench-load bench-python bench-mjx bench-sysid bench-crocoddyl bench-windows bench-training bench-atari fuzz check-format format tidy coverage faults mutate sweep-certificate check-robots poses bits python-env wheel check-python docs check-docs install clean check-deform check-rounding check-recipes ties failing-world bench-room draw

help:
	@echo 'make setup          install what the program, its tests and the demo need [FOR="test bench fuzz format tidy": for these]'
	@echo 'make build          the program build/release/pullback and the libraries beside it'
	@echo 'make demo           parameters, starts and a path found by gradient, an arm and a quadruped that learn: out/index.html [PART=ball: that alone]'
	@echo 'make first-hour     README line by line from an empty Debian 12 (root, network; a quarter of an hour)'
	@echo 'make test           everything that proves it right (minutes)'
	@echo 'make draw           what tests draw by SEED, with many seeds: which are red, and how each is repeated [SEEDS=20 ONLY="poses ties"]'
	@echo 'make validate       the cases of validation/, measured against required [CASE=R2: one of them; PART=3/24: a share of all, four minutes; PART=draw SEED=x: one of 24, nothing written]; goes on after a kill'
	@echo 'make check-all      everything in full, before a release; goes on after a kill (hours)'
	@echo 'make bench          speed, beside MuJoCo on the same core'
	@echo 'make bench-contacts contact methods and gradient modes side by side: errors, cost, searches that succeed'
	@echo 'make bench-sparse   the sparse factorisation beside CHOLMOD'
	@echo 'make bench-batch    many worlds beside the batch of MuJoCo; two threads beside one'
	@echo 'make bench-loop     a robot with its controller inside the step beside the same step with given controls'
	@echo 'make bench-elementary  sine, exponential, power and their kind beside those of the C library'
	@echo 'make bench-products products of dense matrices beside OpenBLAS'
	@echo 'make bench-sweep    Gauss-Newton over controls by sweeps beside the same by a matrix, and 10 000 controls'
	@echo 'make bench-deform   deformables: element Hessians, assembly, factor, step, gradient and its share of the steps'
	@echo 'make wheel          dist/pullback-*.whl for Python 3.11 and later, with the libraries it needs, tried where nothing else is [MACHINE=aarch64: by a cross compiler, tried by qemu]'
	@echo 'make check-python   the Python package with PyTorch, JAX and Gymnasium, its types, once with the address sanitizer, once without libraries'
	@echo 'make docs           the documentation as a site: build/docs/html/index.html (check-docs: and look for dead links, mistakes)'
	@echo 'make bench-load     time of loading the largest robots and the median one, beside MuJoCo'
	@echo 'make bench-python   what calls from Python, PyTorch and JAX cost, beside NumPy, MuJoCo and the C library'
	@echo 'make bench-room     memory and time by bodies, contacts and calls, beside MuJoCo; each promise of docs/limits.md'
	@echo 'make bench-mjx      the gradient of a humanoid beside MJX, which has an environment of its own (minutes to compile)'
	@echo 'make bench-sysid    parameters of a real acrobot found here and by mujoco.sysid, which has an environment of its own'
	@echo 'make bench-crocoddyl  plans by iLQR beside Crocoddyl, which has an environment of its own: the same problems, steps and costs, time to the same answer'
	@echo 'make bench-windows  windows of trainings that follow the agreement of gradients, beside fixed ones at equal decisions [WORDS="task=ant seed=0"]'
	@echo 'make bench-training what trainings reach within how many decisions, beside published figures; goes on after a kill [WORDS="task=ant seed=0,1"]'
	@echo 'make bench-atari    the player of examples/breakout in the Breakout of ale-py, which has an environment of its own'
	@echo 'make bench-whole-body  a published humanoid under pushes: plans by iLQR beside the same with differences of steps by MuJoCo, which has its model in an environment of its own'
	@echo 'make bench-energy   a Hessian from a formula: interpreted, as C, by dual numbers'
	@echo 'make fuzz           the readers of files under libFuzzer [SECONDS=60 each]'
	@echo 'make failing-world  every call for memory, files and threads fails, one at a time: statuses, texts, what is left [SHARE=200 SEED=x ONLY=view]'
	@echo 'make unit           the C tests; cmocka is all they need [TEST=sphere: one; TEST=src/model/sphere.c: those of a source]'
	@echo 'make oracle         tests against MuJoCo [PYTEST_ARGS="-k name"]'
	@echo 'make golden         store the bits of trajectories and derivatives anew (tests/conformance/golden), after a change that is meant to alter them'
	@echo 'make check-style    what makes functions hard to read, counted; no folder may get worse [WORST=5 FOLDER=src/solve STORE=1]'
	@echo 'make threads        one model in several threads, under the thread sanitizer'
	@echo 'make faults         plant faults one by one and see that the tests turn red [SHARE=12 SEED=x: so many of them, chosen by x]'
	@echo 'make mutate         empty and halve the pullback of every entry of every list in one build: a test must turn red (part of make faults)'
	@echo 'make check-deform   random scenes of deformables, each derivative against differences [SCENES=300 SEED=x]'
	@echo 'make check-rounding a million steps of bodies that carry deformables: none is refused at rounding [STEPS=100000 SEED=x]'
	@echo 'make check-recipes  the recipes of docs/adding.md followed word for word: what is added is tested without being told [NAME=sensor: one]'
	@echo 'make ties           all pairs of shapes with features that meet exactly or nearly: gradients fit or the tie is named; goes on after a kill [CASES=2000 SEED=x: so many, drawn by x]'
	@echo 'make check-robots   all robots of the test beds: fields, steps and gradients beside MuJoCo; goes on after a kill [NAME=a1: some]'
	@echo 'make bits           hashes of the results of 71 models with four contact methods beside bench/results/bits.csv [SHARE=40 SEED=x: drawn]'
	@echo 'make poses          a million random and aligned poses of all pairs of shapes, with sanitizers and invariants [POSES=6500: twice so many of each pair; PART=memory: fewer, below valgrind]'
	@echo 'make sweep-certificate   plant the faults of adjoints one by one and see which spot check of a gradient finds each'
	@echo 'make check          format, style and layers'
	@echo 'make tidy           clang-tidy over what changed since it was last clean [ALL=1: over everything]'
	@echo 'make install        program, libraries, headers, man page [PREFIX=/opt/pullback, DESTDIR=...]'
	@echo 'make check-format, format, coverage, clean'
	@echo 'PRESET=debug|asan|asan-quick|tsan|coverage builds and tests another way'

# Configure once; the build tool does so again by itself when a file of the build changes.
CONFIGURE = mkdir -p build && cmake --preset $(PRESET) -G Ninja $(if $(filter release,$(PB_CI:1=$(PRESET))),-DPULLBACK_WERROR=ON) $(1) >$(BUILD).log 2>&1 || \
  { cat $(BUILD).log; exit 1; }

FOR ?= test
setup:
	@for need in $(FOR); do tools/setup --install $$need || exit 1; done

build:
	@tools/setup build
	@test -f $(BUILD)/build.ninja || { $(call CONFIGURE,-DPULLBACK_TESTS=OFF); }
	@tools/build $(PRESET) pullback_static pullback_shared pullback_lcp_shared pullback_lcp_static $(if $(wildcard cli/*.c),pullback_program)

configure:
	@$(call CONFIGURE,-DPULLBACK_TESTS=ON -DPULLBACK_PYTHON=$(if $(filter release,$(PRESET)),ON,OFF))

build-tests:
	@tools/setup test
	@$(MAKE) --no-print-directory configure
	@tools/build $(PRESET)

# Neither Python nor a browser: a tree that was configured for more stays so.
unit:
	@tools/setup unit
	@grep -qs '^PULLBACK_TESTS:BOOL=ON' $(BUILD)/CMakeCache.txt && test -f $(BUILD)/build.ninja || { $(call CONFIGURE,-DPULLBACK_TESTS=ON); }
	@tools/run_unit $(PRESET) $(TEST)

oracle: build-tests
	PULLBACK_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) -m pytest -q tests/oracle $(PYTEST_ARGS)

# Bits of trajectories and derivatives, for every kernel variant: test_golden checks them, this stores them anew.
golden:
	@tools/setup test
	@$(MAKE) --no-print-directory configure
	@tools/build $(PRESET) conformance_test_golden
	@cd tests && ../$(BUILD)/tests/conformance_test_golden --write

# What takes no build of its own: format, style, names of tests, layers.
check: check-format check-style
	@python3 tools/check_named.py
	@python3 tools/check_layers.py $(wildcard $(BUILD))

# One const model in several threads, and batches, under the thread sanitizer.
threads:
	@tools/setup test
	@$(MAKE) --no-print-directory configure PRESET=tsan
	@tools/build tsan hostile_test_threads \
	  $(patsubst tests/unit/%.c,unit_%,$(wildcard tests/unit/test_batch*.c)) unit_test_check unit_test_starts unit_test_mpc_shared
	ctest --preset tsan -R 'hostile/test_threads|unit/test_batch|unit/test_check|unit/test_starts|unit/test_mpc_shared'

# Of 78 pairs of shapes, twice. With PART=memory below valgrind, which sees what is read and was never written: ten times as slow.
POSES ?= $(if $(filter memory,$(PART)),300,6500)
poses: PRESET = $(if $(filter memory,$(PART)),release,asan)
poses:
	@tools/setup test
	@$(if $(filter memory,$(PART)),command -v valgrind >/dev/null || { echo 'make poses PART=memory: valgrind is not there' >&2; exit 1; })
	@$(MAKE) --no-print-directory configure PRESET=$(PRESET)
	@tools/build $(PRESET) unit_test_poses
	@$(if $(filter memory,$(PART)),valgrind -q --error-exitcode=9) build/$(PRESET)/tests/unit_test_poses $(POSES)

# Both parts run even when the first fails, so that one run says all that is wrong.
test: build-tests
	@tools/run_tests $(PRESET)

first-hour:
	@python3 tools/first_hour.py

demo: build
	@tools/setup demo
	@python3 tools/demo.py $(PROGRAM) $(PART)

validate: build-cases
	@$(PYTHON) validation/run.py $(if $(CASE),--case $(CASE)) $(if $(PART),--part $(PART) --seed $(SEED))

SEED ?= 0
validate-quick: build-cases
	@$(PYTHON) validation/run.py --quick --seed $(SEED)

build-cases: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_BENCH=ON -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) bench_lcp bench_robots pullback_core

bench: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench
	@$(PYTHON) bench/run.py; missed=$$?; $(PYTHON) bench/beds.py || missed=1; $(PYTHON) bench/energy.py --build $(BUILD) || missed=1; $(BUILD)/bench/deform | tee bench/results/deform.csv; $(PYTHON) bench/contacts.py --build $(BUILD) && exit $$missed

bench-contacts: build
	@tools/setup python
	@$(PYTHON) bench/contacts.py --build $(BUILD)

bench-sparse: build
	@tools/setup bench
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_sparse
	@$(BUILD)/bench/sparse | tee bench/results/sparse.csv

bench-elementary: build
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_elementary
	@$(BUILD)/bench/elementary | tee bench/results/elementary.csv

bench-loop: build
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_loop
	@$(BUILD)/bench/loop

bench-sweep: build
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_sweep
	@$(BUILD)/bench/sweep >bench/results/sweep.csv; missed=$$?; cat bench/results/sweep.csv; exit $$missed

bench-products: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_products
	@$(BUILD)/bench/products "$$(ls build/venv/lib/python3*/site-packages/scipy.libs/libscipy_openblas-*.so)" >bench/results/products.csv; missed=$$?; cat bench/results/products.csv; exit $$missed

bench-batch: build
	@tools/setup bench
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_batch
	@$(PYTHON) bench/batch.py --build $(BUILD)

bench-deform: build
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_deform
	@$(BUILD)/bench/deform | tee bench/results/deform.csv

bench-load: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_load
	@$(PYTHON) bench/load.py --build $(BUILD)

bench-energy: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_BENCH=ON >/dev/null && tools/build $(PRESET) bench_energy
	@$(PYTHON) bench/energy.py --build $(BUILD)

bench-python: python-env build
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@build/frameworks/bin/python bench/python.py --build $(BUILD)

bench-room: python-env build
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@build/frameworks/bin/python bench/room.py --build $(BUILD)

bench-mjx: build
	@tools/setup mjx
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@build/mjx/bin/python bench/mjx.py --build $(BUILD)

# Pullback's own part by the tests' Python, which has scipy, the other by its environment's.
bench-sysid: build
	@tools/setup test
	@tools/setup sysid
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@$(PYTHON) bench/sysid.py --build $(BUILD)

# Beside MuJoCo, which is in the environment of the tests; the humanoid is in one of its own.
bench-whole-body: build
	@tools/setup test
	@tools/setup whole-body
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/whole_body.py
	@PYTHONPATH=$(BUILD)/python $(PYTHON) bench/backflip.py

# Gymnasium's models, and its own reward on our physics, are in the environment of the frameworks.
bench-windows bench-training: python-env build
	@build/frameworks/bin/python bench/$(@:bench-%=%).py $(WORDS)

# Crocoddyl's threads are those of OpenMP; -P: the script has the name of the package.
bench-crocoddyl: build
	@tools/setup crocoddyl
	@cmake $(BUILD) -DPULLBACK_BENCH=ON -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) bench_ilqr pullback_core
	@OMP_NUM_THREADS=1 build/crocoddyl/bin/python -P bench/crocoddyl.py --build $(BUILD)

bench-atari: build
	@tools/setup atari
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@build/atari/bin/python bench/atari.py --build $(BUILD)

SECONDS ?= 60
fuzz:
	@tools/setup fuzz
	@tools/run_fuzz $(SECONDS)

# Without SHARE every call; with it so many runs of each command, drawn by SEED.
failing-world:
	@tools/setup test
	@$(MAKE) --no-print-directory configure
	@tools/build $(PRESET) pullback_program pullback_shared pullback_core
	@$(PYTHON) tests/world/failing_world.py --build $(BUILD) $(if $(SHARE),--share $(SHARE)) --seed $(SEED) $(ONLY)

# Each seed is one that continuous integration may have; without SEED they come from the clock.
draw: build-tests
	@tools/draw --seeds $(or $(SEEDS),20) $(if $(filter-out 0,$(SEED)),--seed $(SEED)) $(ONLY)

mutate:
	@tools/setup test
	@python3 tools/mutate_pullbacks.py

faults: mutate
	@python3 tools/plant_faults.py $(if $(SHARE),--share $(SHARE) --seed $(SEED)) $(if $(MOST_SECONDS),--seconds $(MOST_SECONDS))

sweep-certificate:
	@tools/setup test
	@$(PYTHON) tools/sweep_certificate.py

# Models of installed packages: their pages in a browser; then as they come and with canonical meshes, a table, and what is refused with its reason.
# The same bits as of other builds (docs/guide/tolerances.md).
bits: build
	@tools/setup test
	@$(PYTHON) tools/bits.py $(BUILD)/pullback $(if $(SHARE),--share $(SHARE)) --seed $(SEED)

check-robots: build
	@tools/setup python
	@PULLBACK_BUILD=$(CURDIR)/$(BUILD) OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(PYTHON) tests/oracle/robot_checks.py $(NAME)
	@PULLBACK_BUILD=$(CURDIR)/$(BUILD) $(PYTHON) tests/oracle/robot_pages.py $(NAME)

# PyTorch, JAX, Gymnasium and the tools of wheels, 6 GB, kept in build/frameworks.
python-env:
	@tools/setup frameworks

wheel: python-env
	@tools/setup build
	@build/frameworks/bin/python tools/wheel.py $(if $(MACHINE),--machine $(MACHINE))

check-python: python-env build-tests  # the build finds XLA's header there
	@tools/check_python $(PART)

# Pages of docs/ with the Python and C interfaces; without network, warnings are errors.
docs: build
	@tools/setup docs
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core
	@PULLBACK_BUILD=$(CURDIR)/$(BUILD) build/frameworks/bin/python docs/site/build.py

check-docs: docs
	@PULLBACK_BUILD=$(CURDIR)/$(BUILD) build/frameworks/bin/python -m pytest -q -p no:cacheprovider tests/site

# Random scenes of deformables, each derivative against differences. A share of them, chosen by SEED, is in make check-python.
check-deform: build-extension
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/python/deform_campaign.py --scenes $(or $(SCENES),300)

# Long runs of coupled scenes, which are decided at rounding. A share of them is in the tests.
check-recipes:
	python3 tools/try_recipes.py $(NAME)

check-rounding: build-extension
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/python/coupled_rounding.py --steps $(or $(STEPS),1000000)

# The whole table of tests/python/tie_scenes.py. Verdicts are kept in build/ties.csv; 400 cases drawn by SEED are in the tests.
ties: build-extension
	@PYTHONPATH=$(BUILD)/python $(PYTHON) tests/python/tie_scenes.py --jobs $(JOBS) $(if $(CASES),--cases $(CASES))

build-extension: build
	@tools/setup python
	@cmake $(BUILD) -DPULLBACK_PYTHON=ON >/dev/null && tools/build $(PRESET) pullback_core

check-all:
	@tools/check_all

SOURCES = $(shell git ls-files '*.c' '*.h')
check-format:
	@tools/setup format
	@echo $(SOURCES) | xargs -P $(JOBS) -n 40 clang-format --dry-run --Werror
# Counts may only fall: tools/style_counts.csv. STORE=1 stores what is better; STORE=1 MOVED=1 after code went between folders.
check-style:
	@python3 tools/check_style.py $(if $(WORST),--worst $(WORST)) $(if $(FOLDER),--folder $(FOLDER)) $(if $(STORE),--store) $(if $(MOVED),--moved)
format:
	@clang-format -i $(SOURCES)
# clang-tidy over what changed since it was last clean [ALL=1: over everything, and keep what is clean]
tidy: build
	@tools/setup tidy
	@python3 tools/tidy.py $(BUILD) $(if $(ALL),--all) $(if $(MOST_SECONDS),--seconds $(MOST_SECONDS))

coverage:
	@$(MAKE) --no-print-directory PRESET=coverage test
	@gcovr --root . --object-directory build/coverage --filter src/ --filter io/ --filter lcp/ --txt --gcov-ignore-parse-errors

# PREFIX: /usr/local unless it is given; DESTDIR as everywhere.
install: build
	@tools/install $(BUILD) '$(PREFIX)'

clean:
	rm -rf build out
