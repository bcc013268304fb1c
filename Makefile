# The whole of robench by make: each target does its own set-up.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO := --suite digits-adv --model digits-vit --model digits-symvit --model digits-rpc-symvit --results results/demo

SCENES := --model scenes-softmax --model scenes-symmetric --model scenes-rpc --results results/scenes

MUTANTS ?= results/mutants

# Compiled modules are kept, else every process that a test starts compiles them again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo scenes test-fast fast-tests test tests test-all mutants lint bench strength checkpoints train-cifar10 cifar10 cifar10-2 table tables figures analyses gpu docs generated suites pictures screenshots errors lock clean

help:            ## this list
	@grep -E '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/ /'

setup: $(READY)  ## make .venv with everything in requirements.lock

$(READY): requirements.lock pyproject.toml
	@echo "Setting up .venv (torch and all: 6 GB, a minute or two, once)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: $(READY)   ## three attention variants through an attack suite to a leaderboard
	@$(BIN)/robench run $(DEMO)
	@echo "Next: two models in detail, a page with all of them, and means over five training seeds of each:"
	@echo "  $(BIN)/robench compare digits-vit digits-symvit --suite digits-adv --results results/demo"
	@echo "  $(BIN)/robench leaderboard --suite digits-adv --results results/demo --output results/leaderboard.html"
	@echo "  $(BIN)/robench run $(DEMO) --all-seeds"

scenes: $(READY) ## three segmenters of digit-scenes: clean, attacked, and under corruptions, in less than five minutes
	@for suite in scenes-clean scenes-adv scenes-c; do $(BIN)/robench run --suite $$suite $(SCENES) || exit; done

test-fast: $(READY) ## style, types and the tests that need no torch: under a minute on 2 cores, once mypy has its cache
	@$(MAKE) --no-print-directory --jobs=2 --output-sync lint fast-tests

fast-tests: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests/fast

test: $(READY)   ## everything that CI checks: style, types and one test of each kind; aim: seven minutes on 2 cores
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=line lint tests

tests: $(READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

test-all: test   ## and tests/slow: every setting, pages that run, workers, kills, hostile files, other libraries
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal tests/slow
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or hypothesis" --hypothesis-profile thorough

mutants: $(READY) ## do the tests catch changed code? 300 seeded mutants, by folder; resumed when repeated (two hours)
	@$(BIN)/python tests/mutation/code_mutants.py --state $(MUTANTS) --jobs 2

lint: $(READY)   ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/mypy

bench: $(READY)  ## speed, as ratios within one run
	@$(BIN)/python -m pytest benchmarks -p no:xdist -p no:cacheprovider -s

figures: $(READY) ## the papers' figures from the archive of results and reports/analyses: reports/figures
	@$(BIN)/robench figure paper --all --results reports/archive.tar.xz --output reports/figures

analyses: $(READY) ## the analyses behind the papers' figures: reports/analyses
	@$(BIN)/python scripts/twin_analyses.py

strength: $(READY) ## robench's attacks beside other libraries': reports/strength.md (an hour or more)
	@$(BIN)/python scripts/strength.py

checkpoints: $(READY)  ## train the published digits checkpoints again
	@$(BIN)/robench train --all

# Seed 0 of all models, then seed 1 of those trained on clean images, then seed 2.
CIFAR10 := cifar10-vit cifar10-symvit cifar10-rpc-symvit cifar10-bilateral-vit cifar10-twicing-vit cifar10-primal-vit \
  cifar10-rkde-vit
CIFAR10_ADVERSARIAL := cifar10-adversarial-vit cifar10-adversarial-rpc-symvit cifar10-adversarial-twicing-vit
JOBS ?= 1
STATE ?= results/training

train-cifar10: $(READY) ## train the models of CIFAR-10 that have no weights yet, JOBS at a time; resumed when repeated
	@$(BIN)/robench train $(CIFAR10) $(CIFAR10_ADVERSARIAL) $(CIFAR10:%=%@1) $(CIFAR10:%=%@2) \
	  --jobs $(JOBS) --state $(STATE)

cifar10: $(READY) ## gains over baselines, leaderboard and figures of CIFAR-10 from the committed results: reports/cifar10
	@$(BIN)/python scripts/cifar10_findings.py
	@$(BIN)/python scripts/attention_findings.py

CIFAR10_2 = $(addprefix cifar10-s-,vit symvit rpc-symvit bilateral-vit twicing-vit primal-vit rkde-vit)
SEEDS ?= 0-11

cifar10-2: $(READY) ## train and measure the models of docs/protocols/cifar10-2.md, JOBS at a time; resumed when repeated
	@$(BIN)/robench train $(CIFAR10_2) --seeds $(SEEDS) --jobs $(JOBS) --state $(STATE)
	@$(BIN)/robench run --suite cifar10-2 $(CIFAR10_2:%=--model %) --all-seeds --no-audit --workers $(JOBS) --device cpu
	@$(BIN)/python scripts/cifar10_second.py results

texts: $(READY)   ## leaderboard and figure of SST-2 from the committed results: reports/texts
	@$(BIN)/python scripts/texts_findings.py

tables: $(READY) ## the papers' tables and their twins from the archive of results: reports/tables and reports/twins
	@$(BIN)/robench table --all --results reports/archive.tar.xz --device-speed 100 --output reports/tables
	@$(BIN)/robench table --all --twin --results reports/archive.tar.xz --output reports/twins

table: $(READY)  ## one printed table from nothing: make table TABLE=rpc:1 DATA=/data/sets
	@test -n "$(TABLE)" || { echo "name a table: make table TABLE=rpc:1 DATA=/data/sets" >&2; exit 2; }
	@$(BIN)/robench reproduce $(TABLE) $(if $(DATA),--data-root $(DATA))

MINUTES ?= 8

gpu: $(READY)    ## robench measured on a GPU in MINUTES (8): reports/gpu.json and reports/gpu.md
	@$(BIN)/python scripts/gpu_battery.py --minutes $(MINUTES)

generated: $(READY) ## every file that scripts write from the code: schemas, suites, pages of docs, CONTRIBUTING, counts
	@$(BIN)/python scripts/generated.py
	@$(BIN)/python scripts/counts.py
	@$(BIN)/python scripts/operations.py
	@$(BIN)/python scripts/results_pages.py

# The suites that scripts write say to run this.
suites: generated

docs: generated  ## the site in build/site
	@rm -rf build/site
	@$(BIN)/python scripts/build_site.py build/site
	@echo "The site is build/site/index.html"

pictures: $(READY) ## docs/gallery: digits under corruptions, shifts and an attack; attention mechanisms
	@$(BIN)/python scripts/gallery_pictures.py
	@$(BIN)/python scripts/mechanism_gallery.py

screenshots: $(READY) ## docs/screenshots of the leaderboard of CIFAR-10 (needs chromium and chromedriver)
	@$(BIN)/python scripts/leaderboard_screenshots.py reports/cifar10/leaderboard.html

errors: $(READY) ## digits-vit's errors under corruptions, the units of the digits' mCE
	@$(BIN)/python scripts/digits_errors.py

lock:            ## requirements.lock anew, from the ranges in pyproject.toml (needs uv)
	uv pip compile --universal --generate-hashes --group dev pyproject.toml --output-file requirements.lock \
	  --no-header --no-annotate --quiet --no-emit-index-url

clean:           ## remove the environment and results
	rm -rf .venv results build/site
