# `make demo` and `make test` do everything from a fresh checkout; both share `make install`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Other libraries' agents, which the adapters are tested against.
ADAPTERS := .venv-adapters
# What builds the documentation's site.
DOCS := .venv-docs
# Experiment trackers; their versions go with none of the others'.
TRACKING := .venv-tracking

.PHONY: install demo check test test-all test-adapters test-tracking test-wheel test-faults docs constraints clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lfiw needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -e ".[video,dev]"
	touch $@

demo: install
	$(BIN)/lfiw demo

check: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# What shows in a few minutes whether a change is sound.
test: check
	$(BIN)/pytest

# And all the rest: trainings that are killed again and again, every method, a Ray cluster, a
# browser, other libraries' agents, trackers, the site.
test-all:
	$(MAKE) test
	$(MAKE) docs
	$(BIN)/pytest -m "slow and not faults" --ignore tests/adapters
	$(MAKE) test-adapters
	$(MAKE) test-tracking
	$(MAKE) test-wheel

# After the other: both builds write into this folder.
$(ADAPTERS)/.installed: pyproject.toml constraints.txt constraints-adapters.txt | $(STAMP)
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -c constraints-adapters.txt -e ".[adapters]" pytest pytest-xdist
	touch $@

test-adapters: $(ADAPTERS)/.installed
	OMP_NUM_THREADS=1 $(ADAPTERS)/bin/pytest tests/adapters

# After the other: both builds write into this folder.
$(DOCS)/.installed: pyproject.toml constraints.txt constraints-docs.txt | $(STAMP)
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt -c constraints-docs.txt -e ".[docs]"
	touch $@

# The site over docs/, in build/site. A link or an anchor that leads nowhere fails (not with --quiet, which
# does not count warnings).
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	@echo "The site is in build/site: python -m http.server -d build/site"

# What users install: built, put into an environment of its own, and used far from this folder.
test-wheel: install
	rm -rf build/lib build/wheel dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --no-compile --quiet --disable-pip-version-check -c constraints.txt dist/lfiw-*.whl
	build/wheel/bin/python -I tests/support/installed.py

# The newest versions that fit pyproject.toml, as pins of all environments.
constraints:
	$(PYTHON) tools/pins.py

# What takes too long even for `make test-all`, such as the full counts of docs/reliability.md; without
# neighbours, since signals are timed there.
test-faults: install $(ADAPTERS)/.installed
	$(BIN)/pytest -n 0 -m faults --ignore tests/adapters
	OMP_NUM_THREADS=1 $(ADAPTERS)/bin/pytest -n 0 -m faults tests/adapters

clean:
	rm -rf $(VENV) $(ADAPTERS) $(DOCS) $(TRACKING) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	rm -rf $(VENV) $(ADAPTERS) $(TRACKING) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
