# Every target documents itself: `make help`. Each ends non-zero when its bar falls short.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
PY := .venv/bin/python
SLUICE := .venv/bin/sluice
TRACE ?= ../shared/data/openb-gpu-2023/openb_pod_list_default.csv
KILLS ?= 50
SEED ?= 1
SEEDS ?= 300
ARGS ?=
FROM ?= $(shell git describe --tags --abbrev=0 2>/dev/null || git log -1 --format=%H -- tests/upgrade/golden)

.PHONY: help install run simulate sim sim-mutants upgrade golden test check audit format rights e2e e2e-scheduler e2e-burst crash control-plane bench-packing bench-plan bench-fallback cost package infra-check clean

help: ## Show what can be made
	@grep -hE '^[a-z][a-z0-9-]*:.*##' $(MAKEFILE_LIST) | sort | awk -F ':.*## ' '{printf "  %-14s %s\n", $$1, $$2}'

install: .venv/.installed ## Make .venv with everything (done by every target that needs it)

.venv/.installed: requirements.txt pyproject.toml
	@command -v python3.11 >/dev/null || { echo "Python 3.11 is needed: install it and try again"; exit 2; }
	python3.11 -m venv .venv
	.venv/bin/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@

run: install ## The whole system on the wall clock: a workload comes, nodes come, all goes again (ARGS=--keep to stay)
	$(SLUICE) run --pools examples/pools/demo.yaml $(ARGS)

simulate: install ## Replay a trace through the whole system on virtual time (TRACE=FILE SEED=n)
	$(SLUICE) simulate --trace $(TRACE) --pools examples/pools/openb.yaml --seed $(SEED) --report out $(ARGS)
	$(PY) -m local.system.bars out/report.json

sim: install ## SEEDS broken worlds on virtual time, fresh ones without FIRST=; SEED=n plays one; MUTANT=FILE: on a patched copy
	$(PY) -m local.simulation $(if $(filter command line,$(origin SEED)),--seed $(SEED),--seeds $(SEEDS)) \
		$(if $(FIRST),--first $(FIRST)) $(if $(MUTANT),--mutant $(MUTANT),$(if $(FIRST),--cases tests/simulation/cases.txt)) $(ARGS)

sim-mutants: install ## Each patch of tests/mutants breaks a rule: broken worlds must find every one (some 30 minutes)
	$(PY) -m tests.mutants $(ARGS)

upgrade: install ## SEEDS worlds that begin under release FROM=REF and go on under this one; BACK=1: and back again
	$(PY) -m local.simulation --from $(FROM) $(if $(BACK),--back) \
		$(if $(filter command line,$(origin SEED)),--seed $(SEED),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(ARGS)

golden: install ## When a version is released: keep what it leaves behind, for the tests of those that come after it
	$(PY) -m tests.upgrade.record $(ARGS)

test: install ## The fast tests, under two minutes
	$(PY) -m pytest -q -n 2 $(ARGS)

check: install ## Format, lint, strict types, import contracts, dead code, unused dependencies
	.venv/bin/ruff format --check .
	.venv/bin/ruff check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/vulture
	.venv/bin/deptry .

audit: install ## Known vulnerabilities of what Azure installs; says so where nobody can be asked
	$(PY) -m tests.package.audit

format: install ## Bring the code into form
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

rights: install ## Every single right, in Azure and in the cluster, is taken away once: something must break, and say so
	$(PY) -m pytest -q -n 2 --dist loadfile -m "rights or not rights" tests/rights $(ARGS)

control-plane: install ## Build the real control plane into the cache (once, 6 to 12 minutes)
	$(PY) -m tests.e2e.control_plane.build

e2e: control-plane ## The end-to-end tests on a real kube-apiserver, scheduler and controller-manager
	$(PY) -m pytest -q -m e2e --timeout 600 tests $(ARGS)

e2e-scheduler: control-plane ## SEEDS random clusters: every plan held against the real kube-scheduler (300 in some 20 minutes)
	$(PY) -m tests.e2e.scheduler --seeds $(SEEDS) $(ARGS)

e2e-burst: control-plane ## 2,000 pods at once on the real control plane: how soon all are bound, and at what price
	$(PY) -m tests.e2e.burst $(ARGS)

crash: install ## kill -9 the Functions host KILLS times during a run; everything must resume
	$(PY) -m tests.crash.kill_runs --kills $(KILLS) --seed $(SEED) $(ARGS)

bench-packing: install ## Packing beside Karpenter and kube-scheduler's own plugins, every bar judged (minutes)
	$(PY) -m bench.packing $(ARGS)

bench-plan: install ## `sluice plan -o json` from outside, on 15,000 pods and 1,000 nodes, in under two seconds
	$(PY) -m bench.plan_command $(ARGS)

bench-fallback: install ## How soon a failure, a Spot notice or an event becomes a request: whole system, written latency model (some 9 minutes)
	$(PY) -m bench.fallback $(ARGS)

cost: install ## What Sluice itself does in an idle and in a busy day: executions, storage operations, ARM calls (minutes)
	$(PY) -m bench.cost --trace $(TRACE) $(ARGS)

package: install ## What is uploaded to Azure: built, unpacked, run with its requirements alone; sizes, licences, SBOM
	$(PY) -m pytest -q -rP -m "package or not package" tests/package $(ARGS)
	$(PY) -m tests.package.bill out/sbom.cdx.json
	$(PY) -m tests.package.archive out/sluice.zip

infra-check: control-plane ## Terraform, Bicep, chart, roles, workflows against real schemas and a real API server (once 15 to 30 minutes of building; WITHOUT= or ONLY=azurerm)
	@command -v terraform >/dev/null || { echo "terraform is not on PATH: install Terraform 1.9 or newer"; exit 2; }
	$(PY) -m tests.infra.tools $(if $(WITHOUT),--without $(WITHOUT)) $(if $(ONLY),--only $(ONLY))
	$(PY) -m pytest -q -m "$(if $(WITHOUT),not $(WITHOUT),$(or $(ONLY),infra or not infra))" tests/infra $(ARGS)

clean: ## Remove what was made here (the cache stays)
	rm -rf .venv out .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
