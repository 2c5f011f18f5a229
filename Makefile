# Every target does its own set-up: a fresh clone needs nothing but Python 3.11 or newer and make.
PYTHON ?= python3
BIN := .venv/bin
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)

.PHONY: setup demo test docs dist soak fuzz bench results clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "ccat needs Python 3.11 or newer: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $@

demo: setup
	$(BIN)/ccat demo

test: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) --no-print-directory docs
	$(BIN)/pytest -n $(JOBS) --dist loadgroup

# The documentation site, into site/. `.venv/bin/mkdocs serve` shows it, with search, while you write.
# (With --quiet, MkDocs does not count warnings, and broken links would pass.)
docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

# What a release uploads: a wheel and a source archive.
dist: setup
	rm -rf dist
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

# An attack suite killed a hundred times at random moments, and resumed.
soak: setup
	CCAT_SOAK=100 $(BIN)/pytest -k interrupted_again tests/test_scale.py

# Any file of a run damaged, any command called, for an hour: the same numbers, or one line that names the file.
fuzz: setup
	cd tests && ../$(BIN)/python fuzz.py --minutes $(or $(MINUTES),60)

# torchattacks pins versions that conflict with those of others: it is put beside them, without its pins.
.venv/peers: .venv/ready
	$(BIN)/pip install --quiet --no-deps --target $@ torchattacks==3.5.1

bench: setup .venv/peers
	PYTHONPATH=.venv/peers $(BIN)/python benchmarks/attacks.py
	$(BIN)/python benchmarks/evaluate.py
	$(BIN)/python benchmarks/startup.py
	PYTHONPATH=.venv/peers $(BIN)/python benchmarks/found.py --add

# Every method, attacked by the suite standard and certified, into runs/, and the tables of docs/RESULTS.md.
results: setup
	$(BIN)/python benchmarks/results.py --examples $(or $(EXAMPLES),1000) --workers $(JOBS) $(if $(ROWS),--rows $(ROWS))

clean:
	rm -rf .venv build dist site .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
