# Headrace. `make` lists the targets; every target sets up what it needs.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
SEED   ?= 1
SEEDS  ?= 200
ROUNDS ?= 20
OPENB  ?=
WORKLOAD ?= default
ORDER  ?= 0
FRAMEWORKS ?= .venv-frameworks
WILD ?= .venv-wild
APPS   ?= .venv-workspaces
PIPELINES ?= .venv-pipelines
PREFECT ?= .venv-prefect
GENERATORS ?= .venv-generators
WINDOWS ?= .venv-windows
KERNEL ?= .venv-kernel
ONLY   ?=
# What `pip install headrace` is for on a laptop: the same code has to fit macOS and Windows too.
LAPTOP := --follow-imports silent \
    $(addprefix -p headrace.,client cli documents slurm access trust) \
    $(addprefix -m headrace.bundles.,frames ignoring manifest packing) \
    $(addprefix -m headrace.embedded.,contexts files)
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help install demo up down check test format schemas sim test-chaos test-agent-faults test-restore test-power test-security \
        test-containers test-cgroup2 test-gpu \
        test-frameworks test-wild test-pipelines test-workspaces test-windows test-readme test-oidc test-fuzz bench bench-slurm bench-openb bench-scheduler bench-agent \
        bench-code bench-gateway conformance \
        determinism constraints system-deps clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

install: $(STAMP) ## install Headrace and its tools into .venv

$(STAMP): pyproject.toml constraints.txt
	@echo "installing into $(VENV) (once; a minute or two) …"
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --quiet --require-hashes --requirement constraints.txt
	@$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@$(BIN)/python -m compileall -q libs services
	@touch $@

demo: $(STAMP) ## two projects' training jobs on two simulated nodes, start to finish
	@$(BIN)/python examples/demo.py

up: $(STAMP) ## start a platform and leave it running
	@$(BIN)/headrace up --detach

down: $(STAMP) ## stop the platform that `make up` started
	@$(BIN)/headrace down

check: $(STAMP) ## format, lint, types, imports, schemas
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 $(LAPTOP)
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin $(LAPTOP)
	$(BIN)/lint-imports
	$(BIN)/python -m headrace.events.export --check proto-schemas
	$(BIN)/python -m headrace.runtime.pipelines.asyncapi --check proto-schemas
	$(BIN)/python -m headrace.gateway.openapi --check proto-schemas

format: $(STAMP) ## format and fix what can be fixed
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: $(STAMP) ## unit, contract, architecture, simulation and end-to-end tests (the longest begin first)
	$(BIN)/pytest --quiet --numprocesses 3 --dist loadfile --no-loadscope-reorder tests

schemas: $(STAMP) ## write proto-schemas/ from the event types and the routes
	$(BIN)/python -m headrace.events.export proto-schemas
	$(BIN)/python -m headrace.runtime.pipelines.asyncapi proto-schemas
	$(BIN)/python -m headrace.gateway.openapi proto-schemas

sim: $(STAMP) ## replay one simulated history: make sim SEED=7
	$(BIN)/python -m headrace.simulation --seed $(SEED)

test-chaos: $(STAMP) ## longer simulated histories and longer faults: make test-chaos SEEDS=2000 ROUNDS=200
	$(BIN)/python -m headrace.simulation --seeds $(SEEDS)
	HEADRACE_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/pytest --quiet -s -m chaos tests/end_to_end

test-agent-faults: $(STAMP) ## what a node comes through: agents killed, machines cut off, clocks turned, disks full
	$(BIN)/python -m tests.agent_faults

test-restore: $(STAMP) ## logs and folders that were copied, moved, restored or broken, under nodes and jobs that run
	$(BIN)/pytest --quiet -m restore tests

test-power: $(STAMP) ## the power fails, at ten moments, under a platform on a disk of its own; needs root
	$(BIN)/pytest --quiet -m "chaos or not chaos" tests/power

test-security: $(STAMP) ## attacks on live platforms, as root and as a plain user; all of them need root and `make system-deps`
	@$(BIN)/python -m tests.security

test-containers: $(STAMP) ## jobs in containers, store and bus in containers; needs root and `make system-deps`
	$(BIN)/pytest --quiet -m containers tests/containers

test-cgroup2: $(STAMP) $(KERNEL)/.unpacked ## limits of cgroup v2, in a machine that boots Debian's kernel; needs `make system-deps`
	@$(BIN)/python -m tests.cgroup2 $(KERNEL)

$(KERNEL)/.unpacked:
	@mkdir -p $(KERNEL)
	@cd $(KERNEL) && apt-get download "$$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1)"
	@dpkg-deb --extract $(KERNEL)/*.deb $(KERNEL) && rm $(KERNEL)/*.deb
	@touch $@

test-gpu: $(STAMP) ## devices and shares on this machine's GPUs; says what it could not try
	$(BIN)/pytest --quiet -m gpu -s tests/gpu

test-workspaces: $(STAMP) $(APPS)/.installed ## what a browser and the applications that people know find in workspaces
	HEADRACE_WORKSPACE_APPS=$(abspath $(APPS)) $(BIN)/pytest --quiet -m workspaces tests/workspaces

$(APPS)/.installed: tests/workspaces/requirements.txt
	@echo "installing applications into $(APPS) (once; some minutes, 600 MB) …"
	@test -x $(APPS)/bin/python || $(PYTHON) -m venv $(APPS)
	@$(APPS)/bin/pip install --quiet --requirement tests/workspaces/requirements.txt
	@touch $@

test-pipelines: $(STAMP) $(PIPELINES)/.installed $(PREFECT)/.installed $(GENERATORS)/.installed ## Airflow and Prefect on a live platform, and clients that generators make
	HEADRACE_AIRFLOW=$(abspath $(PIPELINES)) HEADRACE_PREFECT=$(abspath $(PREFECT)) HEADRACE_GENERATORS=$(abspath $(GENERATORS)) \
	    $(BIN)/pytest --quiet -m pipelines tests/pipelines

$(PIPELINES)/.installed: tests/pipelines/requirements.txt
	@echo "installing Airflow into $(PIPELINES) (once; some minutes, 300 MB) …"
	@test -x $(PIPELINES)/bin/python || $(PYTHON) -m venv $(PIPELINES)
	@$(PIPELINES)/bin/pip install --quiet --requirement tests/pipelines/requirements.txt
	@touch $@

$(PREFECT)/.installed: tests/pipelines/requirements-prefect.txt
	@echo "installing Prefect into $(PREFECT) (once; a minute, 260 MB) …"
	@test -x $(PREFECT)/bin/python || $(PYTHON) -m venv $(PREFECT)
	@$(PREFECT)/bin/pip install --quiet --requirement tests/pipelines/requirements-prefect.txt
	@touch $@

$(GENERATORS)/.installed: tests/pipelines/requirements-generators.txt
	@test -x $(GENERATORS)/bin/python || $(PYTHON) -m venv $(GENERATORS)
	@$(GENERATORS)/bin/pip install --quiet --requirement tests/pipelines/requirements-generators.txt
	@touch $@

test-windows: $(STAMP) $(WINDOWS)/.installed ## the client on Windows' own Python, under Wine
	HEADRACE_WINDOWS=$(abspath $(WINDOWS)) $(BIN)/pytest --quiet -m windows tests/windows

$(WINDOWS)/.installed: tests/windows/requirements.txt tests/windows/install.py
	@rm -rf $(WINDOWS)
	@$(BIN)/python -m tests.windows.install $(WINDOWS)
	@touch $@

test-fuzz: $(STAMP) ## much of what the OpenAPI document allows and forbids, and new examples of properties
	HEADRACE_FUZZ_EXAMPLES=200 $(BIN)/pytest --quiet tests/gateway/test_openapi.py
	HEADRACE_FUZZ_EXAMPLES=200 $(BIN)/pytest --quiet --numprocesses 2 -m hypothesis tests

test-oidc: $(STAMP) ## sign in with an identity provider that is not ours (npm's oidc-provider; needs node)
	@test -d $(VENV)/oidc/node_modules || npm install --no-audit --no-fund --silent --prefix $(VENV)/oidc oidc-provider@8
	HEADRACE_OIDC_PROVIDER=$(abspath $(VENV)/oidc) $(BIN)/pytest --quiet -m oidc tests/gateway/test_independent_provider.py

test-readme: $(STAMP) ## run README's first five minutes and look for what it shows
	$(BIN)/pytest --quiet -m readme tests/end_to_end

test-frameworks: $(STAMP) $(FRAMEWORKS)/.installed ## every framework and paradigm on two nodes, against one process
	@$(BIN)/python -m tests.frameworks $(FRAMEWORKS) $(ONLY)

$(FRAMEWORKS)/.installed: tests/frameworks/requirements.txt tests/frameworks/requirements-torch.txt
	@echo "installing frameworks into $(FRAMEWORKS) (once; some minutes, 4 GB) …"
	@test -x $(FRAMEWORKS)/bin/python || $(PYTHON) -m venv $(FRAMEWORKS)
	@$(FRAMEWORKS)/bin/pip install --quiet --requirement tests/frameworks/requirements.txt
	-@$(FRAMEWORKS)/bin/pip install --quiet --no-build-isolation \
	    --requirement tests/frameworks/requirements-torch.txt
	@touch $@

test-wild: $(STAMP) $(WILD)/.installed ## what people bring, with the libraries themselves: ONLY=words
	@$(BIN)/python -m tests.wild $(WILD) $(ONLY)

$(WILD)/.installed: tests/wild/requirements.txt
	@echo "installing what people bring into $(WILD) (once; some minutes, 3 GB) …"
	@test -x $(WILD)/bin/python || $(PYTHON) -m venv $(WILD)
	@$(WILD)/bin/pip install --quiet --requirement tests/wild/requirements.txt
	@touch $@

bench: $(STAMP) ## measure, and print the figures with the machine's facts
	$(BIN)/python -m tests.bench

bench-slurm: $(STAMP) ## Slurm on this machine, jobs as in `make bench`, which prints it too from then on; needs root
	@command -v slurmctld > /dev/null || apt-get install -yq --no-install-recommends slurmctld slurmd slurm-client munge
	@$(BIN)/python -m tests.bench.slurm

bench-openb: SEEDS = 42-51
bench-openb: $(STAMP) ## placement on a published trace: make bench-openb OPENB=folder WORKLOAD=default
	@$(BIN)/python -m tests.bench.openb "$(OPENB)" --workload $(WORKLOAD) --seeds $(SEEDS) \
	    --order $(ORDER)

bench-scheduler: $(STAMP) ## what the scheduling core's turns cost on 5,000 nodes with 100,000 pending jobs
	@$(BIN)/python -m tests.bench.scheduler

bench-code: $(STAMP) ## what it costs that a folder of 2,000 files travels with a job
	@$(BIN)/python -m tests.bench.code

bench-agent: $(STAMP) ## what a node costs: an idle agent, starts, shims, adoption
	@$(BIN)/python -m tests.bench.agent

bench-gateway: $(STAMP) ## what the doors cost: lists, followers, submissions, the command line's start
	@$(BIN)/python -m tests.bench.gateway

conformance: $(STAMP) ## the scheduling core on KAI-Scheduler's scenarios: make conformance CASES=file
	@$(BIN)/python -m tests.conformance "$(CASES)"

determinism: $(STAMP) ## 10,000 decisions derived again from permuted states, under other hash seeds, without vectors
	@$(BIN)/python -m tests.determinism

constraints: ## pin every dependency anew, with hashes
	$(BIN)/pip install --quiet pip-tools
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-emit-options --allow-unsafe \
	    --extra dev --all-build-deps --output-file constraints.txt pyproject.toml
	$(BIN)/pip-compile --quiet --strip-extras --generate-hashes --no-emit-index-url \
	    --no-emit-trusted-host --no-emit-find-links --no-emit-options --allow-unsafe \
	    --extra platform --all-build-deps --constraint constraints.txt \
	    --output-file deploy/constraints.txt pyproject.toml

system-deps: ## Debian packages that the tests of containers, networks, frameworks, workspaces and Windows need
	apt-get update -q && apt-get install -yq docker.io docker-compose busybox-static iproute2 nftables
	apt-get install -yq --no-install-recommends openmpi-bin default-jre-headless g++ chromium wine64 \
	    qemu-system-x86

clean: ## remove what was installed and built
	rm -rf $(VENV) $(FRAMEWORKS) $(APPS) $(PIPELINES) $(PREFECT) $(GENERATORS) $(WINDOWS) $(KERNEL) dist build .pytest_cache .ruff_cache .mypy_cache .hypothesis
