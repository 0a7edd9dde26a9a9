# Needs python3 (3.11 or newer) and make. Nothing is written outside this folder, but for one case: called by root,
# `make up` and `make test` keep their database in /var/lib/ascertain-<hash>, because PostgreSQL refuses to run as root.

PYTHON ?= python3
UV_VERSION := 0.13.9
SOAKS ?= 10
SOAK_MINUTES ?= 10
BIN := .venv/bin

export UV_CACHE_DIR ?= $(CURDIR)/.local/cache/uv
export UV_PYTHON_DOWNLOADS := never
export UV_SYSTEM_CERTS ?= true
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_CACHE_DIR := 1
export PIP_ROOT_USER_ACTION := ignore
unexport VIRTUAL_ENV PYTHONHOME PYTHONPATH

.PHONY: help up env test lint soak pictures

help:
	@echo "make up        run all of it here: http://127.0.0.1:8000, or PORT=..."
	@echo "make test      everything the suite needs, then the whole suite"
	@echo "make lint      the checks without the tests"
	@echo "make soak      every journey ten times (or SOAKS=...) in random order, the whole ledger verified after each; then"
	@echo "               traffic for ten minutes (or SOAK_MINUTES=...) while workers, database and queue are killed at random"
	@echo "make pictures  screenshots of every page"
	@echo "make env       the environment alone (.venv)"

up: env
	@exec $(BIN)/python manage.py up

env: .venv/made
	@:

.venv/made: uv.lock pyproject.toml
	@$(PYTHON) .ci/python_fits.py
	@test -x $(BIN)/uv || { $(PYTHON) -m venv .venv && $(BIN)/python -m pip install --quiet uv==$(UV_VERSION); }
	@$(BIN)/uv sync --quiet --frozen --inexact
	@touch $@

lint: env
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python manage.py makemigrations --check --dry-run

test: env
	@$(BIN)/python -m recovery.local.machine chromium redis-server rabbitmq-server git
	@$(MAKE) --no-print-directory lint
	$(BIN)/pytest -n 2 --dist loadgroup

soak: env
	@$(BIN)/python -m recovery.local.machine chromium redis-server rabbitmq-server git
	@for round in $$(seq $(SOAKS)); do \
	  echo "Round $$round of $(SOAKS)"; \
	  ASCERTAIN_SHUFFLE=$$(od -An -N3 -tu4 /dev/urandom | tr -d ' ') \
	    $(BIN)/pytest tests/journeys tests/chaos tests/races --ignore tests/chaos/test_soak.py || exit 1; \
	done
	$(BIN)/python -m tests.chaos.soak --seconds $$(($(SOAK_MINUTES) * 60))

pictures: env
	@$(BIN)/python -m recovery.local.machine chromium
	$(BIN)/python manage.py pictures
