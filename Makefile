# make demo: install, build the sample's index, measure it.  make check: fast feedback.  make test: everything.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
# faiss-cpu and faiss-gpu write the same folder: exactly one of the two is installed.
EXTRA  := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Processes of the suite, each with whole files of tests; two of them take up to 6 GB of memory.
WORKERS ?= 2

PYTEST := $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile
# The tests of `make check`, but for the slow ones; with NEAR=FILE only those whose imports reach that file.
CHECKED := tests/app tests/indexer tests/reranker tests/retriever $(if $(NEAR),--near $(NEAR))

# Examples of each test of `make fuzz`; the suite tries a few of them.
EXAMPLES ?= 3000
FUZZ := tests/indexer/readers/test_fuzz.py tests/indexer/program/test_paths.py tests/indexer/readers/test_fuzz_patterns.py tests/retriever/models/test_fuzz_models.py \
        tests/app/serving/test_served_fuzz.py

export PYTHONWARNINGS ?= ignore
export TOKENIZERS_PARALLELISM ?= true
# Each worker of the suite, and each of hundreds of commands that it runs, would compile all files again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo app links check slow-tests test wheel release notebooks fuzz lint size docs site bench clean

help:
	@echo "make demo    install, build an index of the bundled sample, measure four pipelines on it"
	@echo "make app     open the search pages on the sample"
	@echo "make check   before every commit: style, types, import rules and the fast tests, in 40 seconds"
	@echo "             (a minute more the first time, until mypy has its cache)"
	@echo "make check NEAR=FILE  the same with the tests whose imports reach that file, in seconds"
	@echo "make slow-tests  run all tests and measure which ones make check leaves to make test"
	@echo "make test    what continuous integration runs: the same with all tests, in half an hour"
	@echo "make wheel   the wheel in dist/, and its tests"
	@echo "make release all of these on a committed tree, before a tag (docs/releasing.md)"
	@echo "make notebooks  run docs/notebooks"
	@echo "make lint    only style, types and import rules"
	@echo "make size    the lines of code of each package, and the budget"
	@echo "make fuzz    damaged and odd input for readers, settings, indexes, models, addresses and the service"
	@echo "make docs    the tables and pictures in docs/, from the code"
	@echo "make site    the documentation as a site, in build/site"
	@echo "make bench   the benchmarks; results are added to benchmarks/results/"
	@echo "make clean   remove the sample's index and results (not $(VENV))"

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11, 7))' || \
	  { echo "$(PYTHON) is older than 3.11.7: make $(MAKECMDGOALS) PYTHON=python3.13"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml
	$(PIP) install -e '.[$(EXTRA),app,train]'
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) install -e '.[$(EXTRA),test]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/linkseek demo

app: $(VENV)/installed
	$(BIN)/linkseek app

links:
	@test -e linkseek/indexer/index.py || { echo "linkseek/indexer is not a link: mypy and lint-imports would check a" \
	  "tenth of the files. On Windows: git config core.symlinks true, then git checkout -- linkseek" >&2; exit 2; }

lint: links $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check: lint
	$(PYTEST) -m "not slow and not realdata and not browser" --maximum 5 $(CHECKED)

slow-tests: $(VENV)/installed-test
	$(PYTEST) --no-loadscope-reorder --write-slow-tests

test: lint
	$(PYTEST) --no-loadscope-reorder --durations=30

wheel: $(VENV)/installed-test
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python -m pytest tests/end_to_end/test_wheel.py tests/end_to_end/test_portable.py

release:
	@test -z "$$(git status --porcelain)" || { echo "There are changes that are not committed: git status" >&2; exit 2; }
	@version=$$(sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml); \
	  grep -Eq "^## $$version \([0-9]{4}-[0-9]{2}-[0-9]{2}\)" CHANGELOG.md || \
	  { echo "CHANGELOG.md has no dated section for version $$version" >&2; exit 2; }
	$(MAKE) test wheel

notebooks: $(VENV)/installed-test
	$(BIN)/python -m pytest tests/end_to_end/test_notebooks.py

fuzz: $(VENV)/installed-test
	FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest --numprocesses $(WORKERS) --timeout 3600 $(FUZZ)

size: $(VENV)/created
	@$(BIN)/python tests/size.py

docs: $(VENV)/installed
	$(BIN)/python docs/tables.py
	$(BIN)/python docs/figures.py
	$(BIN)/python docs/plots.py

site: $(VENV)/installed-test
	$(BIN)/mkdocs build --strict

bench: $(VENV)/installed-test
	$(BIN)/python -m benchmarks

clean:
	rm -rf index/sample index/sample.linkseek-building results/sample results/sample-two-steps
