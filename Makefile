PYTHON ?= python3
PIP = PYTHONWARNINGS=ignore .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
export Q

.PHONY: ask dev notebooks test lint type format

ask: .venv/.installed  ## Answer a question: make ask Q="…"
	@.venv/bin/briefcontext ask "$$Q"

dev: .venv/.installed-dev  ## Serve the graphs for LangGraph Studio, on this machine only
	LANGGRAPH_CLI_NO_ANALYTICS=1 .venv/bin/langgraph dev --no-browser

notebooks: .venv/.installed-dev  ## Run the notebooks, and store what they print
	for notebook in notebooks/*.ipynb; do .venv/bin/python -m tests.executed_notebook "$$notebook" "$$notebook" || exit 1; done

test: .venv/.installed-dev
	.venv/bin/python -m pytest

lint: .venv/.installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check

type: .venv/.installed-dev
	.venv/bin/mypy

format: .venv/.installed-dev
	.venv/bin/ruff check --fix
	.venv/bin/ruff format

.venv/.installed: pyproject.toml constraints.txt
	@echo "Installing BriefContext into .venv; this takes a minute or two, once." >&2
	$(PYTHON) -m venv .venv
	$(PIP) --upgrade pip
	$(PIP) --editable '.[offline]'
	@touch $@

.venv/.installed-dev: .venv/.installed
	$(PIP) --editable '.[dev]'
	@touch $@
