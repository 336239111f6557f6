# `make demo` and `make test` do everything from a fresh checkout; both share `make install`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Environments with pins of their own: other libraries' agents, which the adapters are tested
# against; experiment trackers; the site and notebooks.
ADAPTERS := .venv-adapters
TRACKING := .venv-tracking
DOCS := .venv-docs
INSTALL := -m pip install --no-compile --quiet --disable-pip-version-check

.PHONY: install demo check test test-all test-adapters test-tracking test-tour test-wheel test-faults \
	docs tour constraints clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "lfiw needs Python 3.11 or newer; try: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python $(INSTALL) -c constraints.txt -e ".[video,dev]"
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
# browser, other libraries' agents, trackers, the site and its notebook.
test-all:
	$(MAKE) test
	$(BIN)/pytest -m "slow and not faults" --ignore tests/adapters
	$(MAKE) test-adapters
	$(MAKE) test-tracking
	$(MAKE) docs
	$(MAKE) test-tour
	$(MAKE) test-wheel

# All after the first: builds write into this folder.
$(ADAPTERS)/.installed: pyproject.toml constraints-adapters.txt | $(STAMP)
	$(PYTHON) -m venv $(ADAPTERS)
	$(ADAPTERS)/bin/python $(INSTALL) -c constraints-adapters.txt -e ".[adapters]" pytest pytest-xdist
	touch $@

test-adapters: $(ADAPTERS)/.installed
	OMP_NUM_THREADS=1 $(ADAPTERS)/bin/pytest tests/adapters

$(TRACKING)/.installed: pyproject.toml constraints-tracking.txt | $(STAMP)
	$(PYTHON) -m venv $(TRACKING)
	$(TRACKING)/bin/python $(INSTALL) -c constraints-tracking.txt -e ".[video,wandb,trackio,mlflow]" pytest pytest-xdist
	touch $@

# With no tracker but the real ones: `make test` has the others.
test-tracking: $(TRACKING)/.installed
	$(TRACKING)/bin/pytest tests/tracking/test_real.py

$(DOCS)/.installed: pyproject.toml constraints-docs.txt | $(STAMP)
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python $(INSTALL) -c constraints-docs.txt -e ".[video,docs]" pytest pytest-xdist
	touch $@

# The site over docs/, in build/site. A link or an anchor that leads nowhere fails (not with --quiet, which
# does not count warnings), and so does one to a file that is no page, which mkdocs does not see in notebooks.
docs: $(DOCS)/.installed
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build --strict
	! grep -rlE 'href="[^":]+\.md["#]' --include='*.html' build/site
	@echo "The site is in build/site: python -m http.server -d build/site"

# The notebook in a fresh kernel and a folder of its own, and how training shows itself in one.
test-tour: $(DOCS)/.installed
	$(DOCS)/bin/pytest tests/tour

# Executes the notebook anew and stores it with its outputs.
tour: $(DOCS)/.installed
	$(DOCS)/bin/python tests/support/kernels.py docs/tour.ipynb

# What users install: built, put into an environment of its own, and used far from this folder.
test-wheel: install
	rm -rf build/lib build/wheel dist
	$(BIN)/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python $(INSTALL) -c constraints.txt dist/lfiw-*.whl
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
	rm -rf $(VENV) $(ADAPTERS) $(TRACKING) $(DOCS) .cache build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
