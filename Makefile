PYTHON ?= python3
# Modules are compiled when they are imported. If Python may not write them down, pip compiles all.
LATER = $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
PIP = PYTHONWARNINGS=ignore .venv/bin/python -m pip --disable-pip-version-check install --quiet $(LATER) --constraint constraints.txt
# Modules in alphabetical order: ordered by their number of tests, a long one would come last.
PYTEST = .venv/bin/python -m pytest --numprocesses auto --dist loadscope --no-loadscope-reorder
export Q
# PyTorch's and BLAS's threads spin while they wait, which several test workers cannot afford.
test quick package docs: export OMP_NUM_THREADS = 1
docs docs-serve: export NO_MKDOCS_2_WARNING = 1

.PHONY: help ask dev notebooks check test quick package docs docs-serve lint type format
.DEFAULT_GOAL := help

help:  ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand --tabs=14

ask: .venv/.installed  ## Answer a question: make ask Q="Which drug is first choice for type 2 diabetes?"
	@test -n "$$Q" || { echo 'Ask a question: make ask Q="Which drug is first choice for type 2 diabetes?"' >&2; exit 2; }
	@.venv/bin/briefcontext ask "$$Q"

dev: .venv/.installed-dev  ## Serve the graphs for LangGraph Studio, on this machine only
	LANGGRAPH_CLI_NO_ANALYTICS=1 .venv/bin/langgraph dev --no-browser

notebooks: .venv/.installed-dev  ## Run the notebooks and store their output
	for notebook in notebooks/*.ipynb; do .venv/bin/python -m tests.executed_notebook "$$notebook" "$$notebook" || exit 1; done

check: lint  ## Run everything that a change must pass
	$(MAKE) --jobs 3 type package docs test

test: .venv/.installed-dev  ## Run all tests
	$(PYTEST)

quick: .venv/.installed-dev  ## Run the quick tests, in about a minute
	$(PYTEST) -m "not slow"

package: .venv/.installed-dev  ## Build the package and ask it a question
	.ci/package

docs: .venv/.installed-dev  ## Build the documentation in site/; warnings are errors
	.venv/bin/mkdocs build --quiet

docs-serve: .venv/.installed-dev  ## Serve the documentation at http://127.0.0.1:8000 while you write
	.venv/bin/mkdocs serve

lint: .venv/.installed-dev  ## Check style
	.venv/bin/ruff check
	.venv/bin/ruff format --check

type: .venv/.installed-dev  ## Check types
	.venv/bin/mypy
	.venv/bin/mypy examples/*.py docs/reference.py

format: .venv/.installed-dev  ## Format the code
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

.venv/bin/python:
	@echo "Installing BriefContext into .venv once. This takes a minute or more." >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) --upgrade pip

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	@$(PIP) --editable '.[offline]'
	@touch $@

.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	@$(PIP) --editable '.[dev]'
	@touch .venv/.installed $@
