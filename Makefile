# Every target creates what it needs and can be run again at no cost.
#   make setup      a virtual environment in .venv with everything in it
#   make demo       a report on a real language model, reports/demo/report.html
#   make test       the tests, on a CPU, without keys
#   make notebooks  every notebook executed, its pages looked at in a headless Chromium if there is one
#   make lint       ruff, mypy --strict, the import contracts
#   make lab        JupyterLab on the notebooks
.DEFAULT_GOAL := help
.PHONY: help setup demo test notebooks lint lab model clean

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

help:
	@sed -n '2,7s/^#   //p' Makefile

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	@echo "setup: preparing $(VENV) (about a minute and 2 GB the first time)"
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "setup: Python 3.11 or newer is needed, this is " + sys.version.split()[0] + "; name another with PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[all]' --constraint constraints.txt
	@touch $(STAMP)
	@echo "setup: done; activate with 'source $(BIN)/activate'"

model: $(STAMP)
	@echo "model: SmolLM2-135M-Instruct (93 MB, fetched once)"
	@$(BIN)/bunny-engine fetch

demo: model
	@echo "demo: asking the bundled engine; the report will be reports/demo/report.html"
	@$(BIN)/bunny-probe diagnose --profile quick --out reports/demo

test: model
	@echo "test: pytest in two processes"
	@$(BIN)/python -m pytest --numprocesses 2 --dist worksteal

notebooks: model
	@echo "notebooks: executing every one, a few minutes"
	@$(BIN)/python -m pytest -m notebooks tests/notebooks

lint: $(STAMP)
	@echo "lint: ruff"
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@echo "lint: mypy --strict"
	@$(BIN)/mypy
	@echo "lint: import contracts"
	@$(BIN)/lint-imports --no-cache | tail -n +3

lab: model
	@echo "lab: opening JupyterLab on notebooks/"
	@$(BIN)/jupyter lab --notebook-dir=notebooks

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis reports
