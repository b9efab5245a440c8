# Everything in .venv, from a machine that has only Python, make and the package registries.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLDEST := .venv-oldest
ENV := RAY_USAGE_STATS_ENABLED=0
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

# Many images set it. Then each of a thousand processes would compile pandas and other packages again, for two seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-thorough test-oldest checks-and-cluster cluster-tests golden-tests other-tests browser-test check docs fix bench figures mutants clean

demo: $(VENV)/.runtime            ## set up, then run the main job on an embedded default
	$(ENV) $(BIN)/blindrec demo --backend ray

test: $(VENV)/.dev                ## set up, then lint, type-check, import contracts, the site, all tests with a sample of their cases
	$(MAKE) --no-print-directory --jobs 2 checks-and-cluster other-tests

# A part of them runs by default: cases that cover all values (tests/support/evidence.py), fewer examples of a property, smaller sizes
test-thorough:                    ## the same with all examples, cases and sizes
	BLINDREC_THOROUGH=1 $(MAKE) --no-print-directory test browser-test

checks-and-cluster: check
	$(MAKE) --no-print-directory cluster-tests

ON_RAY := $$(grep -rl --include='test_*.py' 'mark\.cluster' tests | sort)
# By default Ray gives its workers a nice value of 15. Then the other tests would get the processor before them.
cluster-tests: $(VENV)/.dev       ## tests that start Ray, one after the other
	$(ENV) RAY_worker_niceness=0 $(BIN)/python -m pytest -m cluster $(ON_RAY)

# Older Ray leaves files and processes of its own to Python, which tells when it finds them
UNCLOSED := -W ignore::ResourceWarning -W ignore::pytest.PytestUnraisableExceptionWarning
# The same tests, and those of errors and ports, in an environment of its own, where all other packages are as in $(VENV).
test-oldest: $(OLDEST)/.dev       ## tests that start Ray, with the oldest version of Ray that is supported
	$(ENV) RAY_worker_niceness=0 $(OLDEST)/bin/python -m pytest $(UNCLOSED) -m cluster $(ON_RAY)
	$(ENV) $(OLDEST)/bin/python -m pytest -m "not cluster" tests/coordinator/test_losses.py tests/scenarios/backends/test_ray_private.py

golden-tests: $(VENV)/.dev        ## run before the others, because they compile most kernels and only one process should
	$(ENV) $(ONE_THREAD) $(BIN)/python -m pytest -m "not cluster" tests/test_golden.py

# Neighbouring tests go to the same process, so that what a module prepares is prepared once
other-tests: golden-tests         ## all others but those of a browser, on two processes of one thread each, with less priority than Ray
	$(ENV) $(ONE_THREAD) nice -n 19 $(BIN)/python -m pytest -m "not cluster and not browser" --ignore=tests/test_golden.py -n 2 --dist worksteal

# Debian and Ubuntu have it as a package: `apt-get install chromium`. Without it these tests are skipped, and say so.
browser-test: $(VENV)/.dev        ## a report in headless Chromium: no request, no complaint, prints, fits 1200 and 400 pixels
	$(BIN)/python -m pytest -m browser -rs tests/scenarios/pages

check: docs                       ## all but the tests; also before a commit, by .pre-commit-config.yaml
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The variable hides the notice that the theme will no longer be maintained after May 2027
docs: $(VENV)/.dev                ## the documentation site, in build/site; any warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

fix: $(VENV)/.dev                 ## format, and mend what ruff can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.runtime           ## speed as a ratio to the floor kernel
	$(ENV) $(BIN)/python -m benchmarks.throughput

figures: $(VENV)/.runtime         ## write what quick commands measure, and what is made from JSON files, into README and docs
	for what in documented notebooks measured papers; do $(BIN)/python -m benchmarks.$$what || exit 1; done

# `make mutants SEED=1 SAMPLE=50` draws others, or fewer
SEED ?= 0
SAMPLE ?= 200
mutants: $(VENV)/.dev             ## change one thing at a time where privacy and numbers hang on it: tests must notice
	$(ENV) $(ONE_THREAD) nice -n 10 $(BIN)/python -m benchmarks.mutants --sample $(SAMPLE) --seed $(SEED)

# The pip of an older Python compares every file of an index with every tag of a platform, for a minute. Without a newer
# one it does, too.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	-$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --upgrade pip

$(VENV)/.runtime: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,docs]"
	@touch $@ $(VENV)/.runtime

$(OLDEST)/.dev: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(OLDEST)
	grep -v "^ray==" constraints.txt > $(OLDEST)/constraints.txt
	$(OLDEST)/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -c $(OLDEST)/constraints.txt -e ".[dev]" "ray[default]==2.57.0"
	@touch $@

clean:
	find . -name "*.nb[ic]" -delete
	rm -rf $(VENV) $(OLDEST) build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
