# Every command sets itself up: a machine with Python 3.11 and pip is enough.
# Another Python has an environment of its own: make check PYTHON=python3.13 VENV=.venv-newest
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --constraint constraints.txt

.PHONY: bench-scale demo fill test test-all test-thorough test-lowest dist check format engines bench bench-large docs clean

demo: $(VENV)/.demo
	$(BIN)/gnncal demo

# One process for each core. The tests of a file stay in one process and share its fixtures.
# One thread in each: the tests' matrices are small, and idle BLAS threads wait for each other.
ONE_PROCESS := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest
PYTEST := $(ONE_PROCESS) -n auto --dist loadfile

# Every module, and every law on some methods: five minutes with the installation.
test: $(VENV)/.test
	$(PYTEST) -m "not slow and not engines"

# The rest: every law on every method, fuzzing, a browser, engines, gallery, notebooks, packaging.
# Clusters start processes of their own, which wait for each other under xdist: they run alone.
test-all: $(VENV)/.dev
	$(ONE_PROCESS) -m engines $$(grep -rl --include='*.py' 'mark\.engines' tests)
	$(PYTEST) -m "slow and not engines"

# The same laws on many more examples, other ones each time: half an hour and more.
test-thorough: $(VENV)/.dev
	$(PYTEST) -m "not engines" --hypothesis-profile=thorough

# The oldest versions that pyproject.toml allows of what gnncal itself, Parquet, plots, reports and
# tables need; PyTorch in the one version of constraints.txt. Tests of packages that are not
# installed, such as PyTorch Geometric, are skipped. MARKS chooses among the others.
LOWEST := .venv-lowest
MARKS := not engines
test-lowest: $(LOWEST)/.installed
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(LOWEST)/bin/python -m pytest -n auto \
		--dist loadfile -m "$(MARKS)"

# The files of a release: built, checked, and the wheel tried in an environment with nothing else.
TOOLS := build/release-tools
EMPTY := build/empty
dist:
	rm -rf dist $(EMPTY)
	$(PYTHON) -m venv $(TOOLS)
	$(TOOLS)/bin/python -m pip install --quiet build twine
	$(TOOLS)/bin/python -m build
	$(TOOLS)/bin/python -m twine check --strict dist/*
	$(PYTHON) -m venv $(EMPTY)
	$(EMPTY)/bin/python -m pip install --quiet dist/*.whl
	cd $(EMPTY) && env -u PYTHONPATH bin/python "$(CURDIR)/tests/packaging/quick_start.py"

check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@$(MAKE) --no-print-directory test

# Clusters and a browser. Their tests are skipped where these are missing; CI installs them and
# skips none. The browser itself is Debian's chromium.
engines: $(VENV)/.engines

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: $(VENV)/.bench
	$(BIN)/python benchmarks/speed.py --out benchmarks/results/speed.json

# Minutes to an hour, and up to 20 GiB of memory.
bench-large: $(VENV)/.bench
	$(BIN)/python benchmarks/large.py --out benchmarks/results/large.json

# A quarter of an hour on a quiet machine, 5 GiB of memory and 40 GB of disk; Spark needs Java 17.
bench-scale: $(VENV)/.bench
	$(BIN)/python benchmarks/scale.py --graphs $(or $(GRAPHS),build/graphs)

# Warnings are errors. Pictures, pages of methods and the reference are made from code and records,
# examples are run, and every link within the site must lead somewhere.
docs: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python docs/make_images.py
	OMP_NUM_THREADS=1 $(BIN)/python -m sphinx -W --keep-going -q -b html docs build/docs
	$(BIN)/gnncal bench report results --out build/docs/leaderboard.html
	$(BIN)/python docs/site_pages/links.py build/docs

# Figures and outputs on the pages, from records and runs; a test compares them.
fill: $(VENV)/.docs
	OMP_NUM_THREADS=1 $(BIN)/python docs/fill.py

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras and dependency groups; a change of pyproject.toml installs again. The demo imports a
# quarter of what is installed for it, so nothing is compiled ahead: that took a quarter of the CPU time.
$(VENV)/.demo: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --no-compile --editable '.[report]'
	touch $@

$(VENV)/.test: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) 'pip>=25.1'
	$(PIP) --no-compile torch
	$(PIP) --no-compile --editable '.[all,torchmetrics]' --group test
	touch $@

$(VENV)/.dev: $(VENV)/.test
	$(PIP) --editable '.[all,fast,onnx,s3,torchmetrics]' --group dev
	touch $@

$(LOWEST)/.installed: pyproject.toml constraints.txt constraints-lowest.txt
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint constraints.txt \
		--constraint constraints-lowest.txt --editable '.[neural,parquet,report,scale]' \
		pytest pytest-xdist hypothesis networkx numpydoc hatchling
	touch $@

$(VENV)/.engines: $(VENV)/.dev
	$(PIP) --editable '.[dask,ray,spark]' --group browser
	touch $@

$(VENV)/.bench: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) 'pip>=25.1'
	$(PIP) torch
	$(PIP) --editable '.[fast,pyg,spark]' --group bench
	touch $@

$(VENV)/.docs: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) 'pip>=25.1'
	$(PIP) torch
	$(PIP) --editable '.[all,torchmetrics]' --group docs
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) .venv-newest demo-output block-model-output csbm-output build dist docs/api docs/gallery docs/methods
