# make demo: install, build the sample's index, measure it.    make test: the whole suite.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# faiss-cpu and faiss-gpu write the same folder: exactly one of the two is installed.
EXTRA  := $(shell command -v nvidia-smi >/dev/null 2>&1 && echo gpu || echo cpu)
PIP    := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Processes of the suite, each with whole files of tests; two of them take up to 6 GB of memory.
WORKERS ?= 2

export PYTHONWARNINGS ?= ignore
export TOKENIZERS_PARALLELISM ?= true

.PHONY: help demo app test lint docs bench clean

help:
	@echo "make demo    install, build an index of the bundled sample, measure three pipelines on it"
	@echo "make app     open the search page on the sample"
	@echo "make test    everything: style, types, import rules, tests"
	@echo "make lint    style, types and import rules alone"
	@echo "make docs    the tables of settings in docs/, from the code"
	@echo "make bench   the benchmarks; results are added to benchmarks/results/"
	@echo "make clean   remove the sample's index and results (not $(VENV))"

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/installed: $(VENV)/created pyproject.toml
	$(PIP) install -e '.[$(EXTRA)]'
	@touch $@

$(VENV)/installed-test: $(VENV)/installed
	$(PIP) install -e '.[$(EXTRA),test]'
	@touch $@

demo: $(VENV)/installed
	$(BIN)/linkseek demo

app: $(VENV)/installed
	$(BIN)/linkseek app

lint: $(VENV)/installed-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile

docs: $(VENV)/installed
	$(BIN)/python docs/tables.py

bench: $(VENV)/installed-test
	$(BIN)/python -m benchmarks

clean:
	rm -rf index/sample index/sample.building results/sample
