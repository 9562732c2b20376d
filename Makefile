# Laneway. `make help` lists the targets; each does all of its own set-up.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:

# Tests start hundreds of Python processes. Without byte code each compiles all that it imports: an operator needs 2 s of CPU, not 1.
unexport PYTHONDONTWRITEBYTECODE

SYSTEM_PYTHON ?= python3
CLUSTER ?= laneway
NODES ?= 2
PYTHON := .venv/bin/python
UV := .venv/bin/uv
PYTEST := $(PYTHON) -m pytest
DISTRIBUTIONS := core operator device_plugin node_agent client simulator board sdk cli
COMPONENTS := operator device_plugin node_agent board
INSTALLED := .venv/.installed

##@ Setup

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} \
		/^[a-z][a-z0-9_-]*:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: system-packages
system-packages: ## Install missing system packages (apt, as root on Debian or Ubuntu)
	@$(SYSTEM_PYTHON) hack/cluster/system_packages.py

.PHONY: setup
setup: system-packages $(INSTALLED) ## Create .venv with the locked dependencies and Laneway's own packages

# uv has its own lock and comes first. It then installs everything else and checks hashes.
$(INSTALLED): requirements/bootstrap.txt requirements/dev.txt $(DISTRIBUTIONS:%=%/pyproject.toml)
	test -x $(PYTHON) || $(SYSTEM_PYTHON) -m venv .venv
	test -x $(UV) || $(PYTHON) -m pip install --quiet --require-hashes -r requirements/bootstrap.txt
	$(UV) pip sync --quiet --python $(PYTHON) --require-hashes requirements/dev.txt
	$(UV) pip install --quiet --python $(PYTHON) --no-deps --no-build-isolation $(DISTRIBUTIONS:%=-e ./%)
	touch $@

OURS := $(foreach d,$(subst _,-,$(DISTRIBUTIONS)),--no-emit-package laneway-$(d))
LOCK = $(UV) pip compile --quiet --generate-hashes --no-emit-index-url --no-emit-find-links --no-annotate --no-header
COMPILE = $(LOCK) --universal --python-version 3.11 $(OURS)
# The tests' root file system has Debian's builds of these, so they are not resolved.
DEBIANS = torch numpy scipy

.PHONY: lock
lock: ## Resolve the dependencies and write requirements/*.txt
	test -x $(UV) || { $(SYSTEM_PYTHON) -m venv .venv && $(PYTHON) -m pip install --quiet uv; }
	$(COMPILE) --group dev pyproject.toml -o requirements/dev.txt
	echo uv | $(COMPILE) -c requirements/dev.txt - -o requirements/bootstrap.txt
	echo hatchling | $(COMPILE) -c requirements/dev.txt - -o requirements/build.txt
	echo ziglang | $(COMPILE) -c requirements/dev.txt - -o requirements/interposer.txt
	$(foreach c,$(COMPONENTS) cli,$(COMPILE) $(c)/pyproject.toml -c requirements/dev.txt -o requirements/$(subst _,-,$(c)).txt;)
	$(LOCK) --python-version 3.13 --python-platform x86_64-manylinux_2_28 --group frameworks \
		--override <(printf "%s; python_version < '0'\n" $(DEBIANS)) -o requirements/frameworks.txt

.PHONY: generate
generate: $(INSTALLED) ## Write the generated files: CRDs, protobuf modules, reference pages, the chart's schema, defaults, dashboards, README and configuration page
	$(PYTHON) -m laneway.api.generate_crds
	$(PYTHON) -m hack.reference
	$(PYTHON) -m laneway.device_plugin.generate_protos
	$(PYTHON) -m hack.chart
	$(PYTHON) -m tests.faults.page

##@ Documentation

.PHONY: docs
docs: $(INSTALLED) ## Build the documentation's site into build/docs
	$(PYTHON) -m hack.docs --site build/docs

##@ Benchmarks (their results: docs/measurements.md)

TRACES ?= ../shared/traces
ONLY ?=

.PHONY: bench-scheduling
bench-scheduling: setup ## Decisions, simulations, fidelity: TRACES=folder of published traces, ONLY=speed,fragmentation,real-workload,real-cluster,...
	$(PYTHON) -m tests.performance.bench_scheduling --traces $(TRACES) --results docs/measurements --only "$(ONLY)"

.PHONY: bench-node
bench-node: setup ## Turns: boundary, hand-off, fairness, shares, launch-gate, agent-load, memory, makespan, scale, attacks, http-attacks, interposer-start; about 14 minutes; ONLY=hand-off,..., or hostile-pods on a cluster
	$(PYTHON) -m tests.performance.bench_node --results docs/measurements --only "$(ONLY)"

.PHONY: bench-client
bench-client: setup ## The client with real PyTorch: start, cost, offload, fit; about 8 minutes; ONLY=cost,...
	$(PYTHON) -m tests.performance.bench_client --results docs/measurements --only "$(ONLY)"

RESULTS ?= docs/measurements

.PHONY: bench-scale
bench-scale: programs ## The operator with thousands of jobs on nodes simulated by kwok; about an hour; ONLY=operator, watches, binding or heartbeats, RESULTS=folder SIZE="--nodes 300 --jobs 1500"
	$(PYTHON) -m tests.performance.bench_scale --results "$(RESULTS)" --only "$(ONLY)" $(SIZE)

.PHONY: bench-sharing
bench-sharing: programs ## Jobs that use 30 to 70 % of a GPU on real kubelets, with and without sharing in one run; about 7 minutes
	$(PYTHON) -m tests.performance.bench_sharing --results "$(RESULTS)"

.PHONY: bench-elastic
bench-elastic: programs ## The same gangs and short jobs on real kubelets, with fixed gangs and with elastic policies in one run; about 10 minutes
	$(PYTHON) -m tests.performance.bench_elastic --results "$(RESULTS)"

BEFORE ?= docs/measurements
AFTER ?=

.PHONY: bench-check
bench-check: $(INSTALLED) ## Compare two results with the margins of tests/performance/margins.yaml: BEFORE=folder or file, AFTER=...
	$(PYTHON) -m tests.performance.bench_check "$(BEFORE)" "$(AFTER)"

##@ Cluster (KUBECONFIG, else kind, else an embedded cluster built from source)

.PHONY: cluster-up
cluster-up: setup ## Start the local cluster: CLUSTER=laneway NODES=2
	$(PYTHON) -m hack.cluster up --name $(CLUSTER) --nodes $(NODES)
	@echo "Next, install Laneway there: the commands are in hack/cluster/README.md, under 'Laneway on the cluster'." >&2

.PHONY: programs
programs: setup ## Build Kubernetes and its tools from pinned sources into the cache, once
	@$(PYTHON) -m hack.cluster build

.PHONY: cluster-status
cluster-status: setup ## Show the local cluster's components and nodes
	$(PYTHON) -m hack.cluster status --name $(CLUSTER)

.PHONY: cluster-down
cluster-down: setup ## Remove the local cluster completely
	$(PYTHON) -m hack.cluster down --name $(CLUSTER)

##@ Demo

.PHONY: demo
demo: setup ## Real jobs on a real cluster: lanes, a gang, preemption, a job that never fits, one that outgrows its share, sharing, an elastic job
	$(PYTHON) -m hack.demo --name $(CLUSTER)

PROMETHEUS ?= http://127.0.0.1:9090
PICTURE ?=

.PHONY: pictures
pictures: setup ## Pictures of the dashboards from a Prometheus' data: PROMETHEUS=address PICTURE="--minutes 15 namespace=a training_job=b"
	$(PYTHON) -m hack.pictures $(PROMETHEUS) $(PICTURE)

##@ Test

.PHONY: test
test: verify test-unit test-adversarial test-properties test-isolation test-integration test-faults test-e2e ## Everything that CI runs

# One process more than cores, because some tests wait.
.PHONY: test-unit
test-unit: $(INSTALLED) ## Pure parts, in under a minute, without root
	$(PYTEST) --numprocesses $$(( $$(nproc) + 1 )) tests/unit

.PHONY: test-adversarial
test-adversarial: $(INSTALLED) ## Workloads that would break a scheduler, in simulated time
	$(PYTEST) --numprocesses auto tests/adversarial

.PHONY: test-properties
test-properties: $(INSTALLED) ## Properties at length: lane tables over 100,000 changes, all interleavings of small gangs
	$(PYTEST) --numprocesses auto tests/properties

.PHONY: test-isolation
test-isolation: setup ## Programs that try to exceed their memory, on a fake driver with the real interposer; as root: docs/isolation.md
	$(PYTEST) --numprocesses 3 --dist worksteal tests/isolation

.PHONY: test-integration
test-integration: programs ## Components against a real kube-apiserver, real sockets, real PyTorch; more processes than cores, because tests mostly wait
	$(PYTHON) -m hack.images rootfs frameworks
	$(PYTEST) --numprocesses 5 --dist loadfile --no-loadscope-reorder tests/integration

CELLS ?=
SEEDS ?= 1
KILLS_APART ?=

.PHONY: test-faults
test-faults: programs ## The operator killed, misled and cut off: docs/reliability.md; CELLS=kind:seed, SEEDS=10 times as many, KILLS_APART=100
	CELLS="$(CELLS)" SEEDS=$(SEEDS) KILLS_APART=$(KILLS_APART) $(PYTEST) --numprocesses 4 --dist worksteal tests/faults

.PHONY: test-long
test-long: programs images ## Outside CI: tests marked as long, all examples of properties, five times their steps, 294 lives with faults in place of 63
	LONG=1 $(PYTEST) --numprocesses auto -m 'long or not long' tests/unit
	LONG=5 $(PYTEST) --numprocesses auto tests/properties
	$(PYTHON) -m hack.images rootfs frameworks
	$(PYTEST) --numprocesses 3 --dist worksteal -m long tests/isolation tests/integration
	SEEDS=2 KILLS_APART=16 $(PYTEST) --numprocesses 3 --dist worksteal tests/faults
	$(PYTEST) -m long tests/e2e

.PHONY: test-rivals
test-rivals: programs ## 50 competing gangs on nodes simulated by kwok, with the real kube-scheduler; builds kwok once; not in `make test`
	$(PYTEST) tests/rivals

# What only the test of a release needs is built first: beside the tests, its build would starve the clusters.
.PHONY: test-e2e
test-e2e: programs images ## Everything on real kubelets: two clusters side by side, which keep two cores busy
	@$(PYTHON) -m hack.cluster build registry crane
	$(PYTEST) --numprocesses 2 --dist loadfile --no-loadscope-reorder tests/e2e

TESTS ?=
FRESH ?=
SAMPLE ?=

.PHONY: mutants
mutants: $(INSTALLED) ## Mutation testing of a module: ONLY=laneway.lanes.turns; TESTS=folders, SAMPLE=number of mutants, FRESH=1 begins again
	$(PYTHON) -m tests.performance.mutants --only "$(ONLY)" --tests "$(TESTS)" $(if $(SAMPLE),--sample $(SAMPLE)) $(if $(FRESH),--fresh) --results docs/measurements

GPU_PYTHON ?= python3
GPU_PYTHON_VERSION ?= 3.12

.PHONY: test-gpu
test-gpu: ## On a machine with an NVIDIA GPU and PyTorch (docs/real-gpu.md): ONLY=tests, sharing or shares, GPU_PYTHON=python3
	$(GPU_PYTHON) tests/gpu --only "$(ONLY)" --results "$(RESULTS)"

.PHONY: gpu-wheels
gpu-wheels: $(INSTALLED) ## Put wheels and the interposer into .wheels for such a machine without network: GPU_PYTHON_VERSION=3.12
	$(PYTHON) -m tests.gpu.wheels --python-version $(GPU_PYTHON_VERSION)

##@ Verify

CHECKS := types lint layers verify-words verify-tests verify-generated verify-docs verify-chart

# Most checks use one core. What a check prints comes whole, at its end.
.PHONY: verify
verify: setup programs ## Lint, types, layers, words, test imports, generated files, documentation, chart; side by side
	@$(MAKE) --no-print-directory --jobs=$$(nproc) --output-sync=target $(CHECKS)

.PHONY: lint
lint: $(INSTALLED) ## ruff and mdformat: lint and format
	$(PYTHON) -m ruff check .
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m mdformat --check $$(git ls-files '*.md')

.PHONY: format
format: $(INSTALLED) ## Fix lint and format with ruff and mdformat
	$(PYTHON) -m ruff check --fix .
	$(PYTHON) -m ruff format .
	$(PYTHON) -m mdformat $$(git ls-files '*.md')

.PHONY: types
types: $(INSTALLED) ## mypy --strict
	$(PYTHON) -m mypy

.PHONY: layers
layers: $(INSTALLED) ## import-linter: who may import whom
	.venv/bin/lint-imports

.PHONY: verify-words
verify-words: $(INSTALLED) ## No removed names and words; warns about long commit subjects
	$(PYTHON) -m hack.verify words

.PHONY: verify-tests
verify-tests: $(INSTALLED) ## No test module imports another, no kind of tests another kind
	$(PYTHON) -m hack.verify tests

.PHONY: verify-generated
verify-generated: $(INSTALLED) ## Check that generated files are current
	$(PYTHON) -m laneway.api.generate_crds --check
	$(PYTHON) -m hack.reference --check
	$(PYTHON) -m laneway.device_plugin.generate_protos --check
	$(PYTHON) -m hack.chart --check
	$(PYTHON) -m tests.faults.page --check

.PHONY: verify-docs
verify-docs: $(INSTALLED) ## Build the documentation's site and throw it away: every link, anchor and entry of the navigation
	$(PYTHON) -m hack.docs

.PHONY: verify-chart
verify-chart: programs ## helm lint, and kubeconform on the rendered chart
	$(PYTHON) -m hack.verify chart

##@ Images and chart

.PHONY: images
images: setup ## Build the images (with docker or podman if one runs, otherwise buildah)
	$(PYTHON) -m hack.images build

.PHONY: interposer
interposer: setup ## Build liblaneway-interposer.so and ld.so.preload into node_agent/interposer/build
	PYTHON=$(PYTHON) sh node_agent/interposer/build.sh node_agent/interposer/build

.PHONY: chart
chart: setup ## Render the chart with its default values
	@"$$($(PYTHON) -m hack.cluster bin helm)" template laneway charts/laneway --namespace laneway-system --kube-version 1.36

##@ Release (hack/release/README.md)

VERSION ?=
KEY ?=
REGISTRY ?= ghcr.io

.PHONY: release
release: setup ## Build wheels, images, chart, CRDs and kubectl-laneway into dist/: VERSION=0.1.0, KEY=private-key.pem signs it
	$(PYTHON) -m hack.release build "$(VERSION)" $(if $(KEY),--key "$(KEY)")

.PHONY: publish
publish: setup ## Push the images and the chart of dist/ to a registry: VERSION=0.1.0 REGISTRY=registry.example.com/team
	$(PYTHON) -m hack.release publish "$(VERSION)" --registry "$(REGISTRY)"
