# Everything from a machine that has Python >= 3.11, git and make.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The index that PyTorch alone is taken from, in place of the usual one; the README names the one for Linux without a GPU.
TORCH_INDEX ?=
# Folders of results/ that are published: records, and a board generated from them.
BOARDS := encodings parts main tasks extensions pretrained pretrained_served served windows tuned fine_tuned bases layers hybrids packed longer everything stretched text
# For how long mutants are begun, and the commit whose files are compared; see tests/mutants.
MUTANT_SECONDS ?= 600
SINCE ?=
export OMP_NUM_THREADS ?= 1

.DEFAULT_GOAL := help
.PHONY: help demo test test-slow mutants lint types check pages docs lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

# All but PyTorch is installed by its hash. PyTorch's file differs from index to index, and it brings the packages of CUDA or
# not; its version is pinned. Two indexes are never asked for one package: pip would take the higher version of either.
PIP := $(BIN)/pip --quiet --disable-pip-version-check
$(VENV)/.installed: pyproject.toml constraints.txt requirements.lock
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "posbench needs Python 3.11 or newer, this is " + sys.version.split()[0])'
	$(PYTHON) -m venv $(VENV)
	@echo "Installing into $(VENV), which takes some minutes."
	$(PIP) install --require-hashes --no-deps -r requirements.lock
	$(PIP) install $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch -c constraints.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	$(BIN)/pip check
	@touch $@

demo: $(VENV)/.installed ## one training of RoPE, four extensions of it, a board of five rows: a minute
	$(BIN)/python -m posbench -m method=rope,rope_pi,rope_ntk,rope_yarn,rope_self_extend
	$(BIN)/posbench board
	@echo 'Next: . $(BIN)/activate, and then posbench --help'

# Of tests: one for each core, but each takes a gigabyte of memory. 0: this one alone.
PROCESSES ?= logical
PYTEST := $(BIN)/python -m pytest -n $(PROCESSES) --maxprocesses 8

test: $(VENV)/.installed ## the tests: minutes
	$(PYTEST) -m 'not slow'

test-slow: $(VENV)/.installed ## the tests marked slow
	$(PYTEST) -m slow

mutants: $(VENV)/.installed ## do the tests notice mistakes in the files that have changed?
	$(BIN)/python -m tests.mutants --changed-since $(SINCE) --seconds $(MUTANT_SECONDS)

lint: $(VENV)/.installed ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.installed ## static types
	$(BIN)/mypy

check: CHECK := --check
check: pages ## is every generated page what `make pages` would write?

# Pictures of rows come before the boards that show them. Mutants that have no row yet are tried, which takes a minute each.
pages: $(VENV)/.installed ## write every generated page: of conf/, docs/, results/ and tests/
	$(BIN)/python -m posbench.conf.reference $(CHECK)
	$(BIN)/python -m posbench.explain.sketches $(CHECK)
	for board in $(BOARDS); do $(BIN)/posbench board results/$$board $(CHECK) || exit 1; done
	$(BIN)/python results/pretrained/predicting.py results/pretrained results/main $(CHECK)
	for claims in extensions replications; do $(BIN)/posbench board claims results/$$claims $(CHECK) || exit 1; done
	$(BIN)/python results/pilots/analysis.py $(CHECK)
	$(BIN)/python tests/oracles.py $(CHECK)
	$(BIN)/python -m posbench.boards.answers $(CHECK)
	$(BIN)/python tests/mounts.py $(CHECK)
	$(BIN)/python -m tests.mutants $(or $(CHECK),--write)

docs: $(VENV)/.installed ## the documentation as a site, in site/index.html; installs mkdocs-material
	$(PIP) install --no-build-isolation -e '.[docs]' -c constraints.txt
	$(BIN)/python -m mkdocs build --strict --quiet

# UPGRADE=--upgrade takes the newest versions. What only PyTorch needs is pinned, and not in the lock.
COMPILE := uv pip compile --quiet pyproject.toml --extra dev --universal --python-version 3.11 --no-annotate --no-header
lock: ## bring constraints.txt and requirements.lock up to date with pyproject.toml; needs uv
	$(COMPILE) $(UPGRADE) -o constraints.txt
	$(COMPILE) -c constraints.txt --generate-hashes -o requirements.lock \
	  $$(sed -nE 's/^(torch|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)==.*/--no-emit-package \1/p' constraints.txt | sort -u)

clean: ## remove the environment and caches; results stay
	rm -rf $(VENV) build site dist *.egg-info .mypy_cache .pytest_cache .ruff_cache
