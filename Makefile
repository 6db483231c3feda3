# The front door. Everything is made inside this folder: .venv, target, out.
# Needs: make, a C linker (cc), rustc and cargo, Python >= 3.11. Python packages come from pip's index, crates from cargo's.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export VIRTUAL_ENV := $(abspath $(VENV))
export PYTHONDONTWRITEBYTECODE := 1
unexport PYTHONHOME
unexport PYTHONPATH
unexport CONDA_PREFIX

RUST := $(shell find crates -name '*.rs' -o -name Cargo.toml -o -name clippy.toml) Cargo.toml Cargo.lock
LOCK := --upgrade --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url
JOBS ?= $(shell nproc)
# Where a static C library is: glibc's of the host, or x86_64-unknown-linux-musl with that toolchain installed.
AGENT_TARGET ?= $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')

# Where tests of the crates say that they were skipped (crate testdata).
SKIPPED := $(abspath target/skipped.txt)

.DEFAULT_GOAL := help

.PHONY: help dev tools peers run test test-rust test-python lint format bench bench-instructions docs site man dist agreement swarm fuzz-cli gate-property kill-test deny lock agent host-test host-coverage soak clean

help: ## Show this list.
	@sed -n 's/^\([a-z-]*\):[^#]*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

dev: $(VENV)/.dev ## Build into .venv: afterwards .venv/bin/opplab works.

tools: $(VENV)/.tools ## Install what tests and lints need into .venv: pytest, ruff, mypy.

peers: $(VENV)/.peers ## Install the Python packages of other tools that some tests compare with (Dask, Perfetto's protobuf).

run: dev ## Simulate the showcase hwp-boost: tables, score and report go to out/hwp-boost.
	$(BIN)/opplab run hwp-boost --jobs $(JOBS) -o out/hwp-boost

test: test-rust test-python ## Run all tests.

test-rust: $(VENV)/.pip ## Run the tests of the crates.
	@mkdir -p target && rm -f $(SKIPPED)
	@echo cargo test --workspace --locked --quiet; OPPLAB_SKIPPED=$(SKIPPED) cargo test --workspace --locked --quiet; status=$$?; \
	if [ -s $(SKIPPED) ]; then echo "$$(wc -l < $(SKIPPED)) tests of the crates did nothing:"; sort $(SKIPPED); fi; exit $$status

# Hundreds of tests start a program of their own: bytecode is written for once (`make clean` removes it).
test-python: export PYTHONDONTWRITEBYTECODE :=
test-python: $(VENV)/.dev $(VENV)/.tools ## Run the tests of the Python package.
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile --no-loadscope-reorder

lint: $(VENV)/.dev $(VENV)/.tools ## Check form, lints, types and licences.
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/ruff format --check python tests tools lab
	$(BIN)/ruff check python tests tools lab
	$(BIN)/mypy
	$(BIN)/python tools/licences.py opplab-py

format: $(VENV)/.tools ## Bring all sources into form.
	cargo fmt --all
	$(BIN)/ruff format python tests tools lab
	$(BIN)/ruff check --fix python tests tools lab

bench: dev ## Measure: ns per PELT update, scheduler events per second, simulated seconds per second.
	cargo bench --workspace --locked --quiet
	$(BIN)/python tools/bench_python.py

bench-instructions: $(VENV)/.dev ## Count instructions with callgrind: 2 % above the record fails. RECORD=1 (RECORD=CASE) moves the record.
	$(BIN)/python tools/bench_instructions.py $(if $(RECORD),--record $(RECORD))

docs: dev $(VENV)/.docs ## Compute the tables, figures and explained runs in docs anew.
	$(BIN)/python -m lab.studies.approximation
	$(BIN)/python -m lab.studies.tours
	$(BIN)/python -m lab.studies.power
	$(BIN)/python -m lab.studies.phones
	$(BIN)/python -m lab.studies.fsync
	$(BIN)/python -m lab.studies.groups
	$(BIN)/python -m lab.studies.proposals
	$(BIN)/python tools/kernel_index.py
	$(BIN)/python -m lab.studies.readme
	$(BIN)/python -m lab.studies.tutorials
	$(BIN)/python -m lab.studies.notebooks

site: $(VENV)/.dev $(VENV)/.docs ## Build the documentation site, with reference and gallery made by the program, into out/site.
	$(BIN)/python tools/make_site.py

man: dev ## Write the man pages to out/man.
	$(BIN)/python -m opplab.cli.reference man out/man

dist: dev ## Build sdist and wheel into out/dist, with bill of materials and licences, and try both in clean environments.
	$(BIN)/python tools/dist.py

agreement: dev ## Compare with the published tables and with recorded kernels, and report the distance.
	$(BIN)/opplab verify published --jobs $(JOBS) -o out/published --docs docs
	@if [ -d ../shared/traces ]; then $(BIN)/opplab verify traces ../shared/traces; \
	else echo "skipped: no recordings at ../shared/traces beside the repository"; fi

swarm: ## Random machines and workloads under the invariant checks; OPPLAB_SEED=... replays one.
	OPPLAB_SWARM=$(or $(OPPLAB_SWARM),5000) cargo test --release --locked -p opplab-sim --test all swarm:: -- --nocapture

fuzz-cli: dev ## Call every command with damaged files and odd words: FUZZ_CALLS (2000), FUZZ_MINUTES (60), OPPLAB_SEED.
	$(BIN)/python tools/fuzz_cli.py --calls $(or $(FUZZ_CALLS),2000) --minutes $(or $(FUZZ_MINUTES),60) --seed $(or $(OPPLAB_SEED),1) -o out/fuzz-cli

gate-property: dev ## A worse value makes no gate pass that failed: GATE_RESULTS (100000) random results, OPPLAB_SEED.
	$(BIN)/python tests/results/test_gate.py $(or $(GATE_RESULTS),100000) $(or $(OPPLAB_SEED),0)

kill-test: dev ## Kill sweeps, their workers and the power 300 times; what is resumed must be the undisturbed folder. Also host compare.
	OPPLAB_KILLS=50 cargo test -p opplab-host --locked --quiet --test all compare_reboot:: -- compare_cli:: --nocapture
	$(BIN)/python tools/kill_test.py --share $(or $(KILL_SHARE),1) --seed $(or $(OPPLAB_SEED),1)

deny: ## Check crates for advisories, licences, bans and sources (needs cargo-deny).
	cargo deny --all-features check

lock: $(VENV)/.pip ## Fix the newest versions that pyproject.toml allows, with their hashes, in requirements/ (fetches uv).
	$(PYTHON) tools/make_venv.py target/uv uv
	target/uv/bin/uv pip compile $(LOCK) --quiet --no-annotate requirements/build.in -o requirements/build.txt
	target/uv/bin/uv pip compile $(LOCK) --quiet --no-annotate pyproject.toml -o requirements/run.txt
	target/uv/bin/uv pip compile $(LOCK) --quiet --no-annotate requirements/peers.in -c requirements/run.txt -o requirements/peers.txt
	for extra in dask dev docs; do target/uv/bin/uv pip compile $(LOCK) --quiet --no-annotate pyproject.toml --extra $$extra \
	  -c requirements/run.txt -o requirements/$$extra.txt || exit 1; done

agent: ## Build opplab-agent, the commands of `opplab host` in one static binary, to target/opplab-agent.
	RUSTFLAGS="$(RUSTFLAGS) -C target-feature=+crt-static" cargo build --profile agent --locked --quiet -p opplab-host \
	  --bin opplab-agent --target $(AGENT_TARGET) --target-dir target/agent
	@cp target/agent/$(AGENT_TARGET)/agent/opplab-agent target/opplab-agent && ls -l target/opplab-agent

host-test: dev agent ## Run opplab-agent as root in emulated machines with stock kernels (installs QEMU; skips where it cannot).
	$(BIN)/python tools/host_test.py target/opplab-agent

host-coverage: ## Make 10,000 experiments of `host compare` on made machines: intervals must hold their truth.
	cargo test --locked --release -p opplab-host --test all compare_made:: -- --ignored --nocapture

soak: agent ## Govern and observe for SOAK_MINUTES (60) in an emulated machine while CPUs, settings, clocks and sleep disturb it.
	$(PYTHON) tools/host_test.py target/opplab-agent --soak $(or $(SOAK_MINUTES),60)

clean: ## Remove everything that was built (not out/).
	rm -rf target $(VENV) python/opplab/_opplab*.so .ruff_cache .mypy_cache .pytest_cache
	find python tests tools lab -name __pycache__ -type d -prune -exec rm -rf {} +

# Stamps: a second `make run` rebuilds nothing.
$(VENV)/.pip: tools/make_venv.py requirements/build.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) not found: install Python 3.11 or newer, or make PYTHON=/path/to/python3" >&2; exit 2; }
	@$(PYTHON) tools/make_venv.py $(VENV) --locked build
	@touch $@

$(VENV)/.tools: $(VENV)/.pip requirements/dev.txt
	@$(BIN)/python tools/make_venv.py $(VENV) --locked dev
	@touch $@

$(VENV)/.peers: $(VENV)/.pip requirements/dask.txt requirements/peers.txt
	@$(BIN)/python tools/make_venv.py $(VENV) --locked dask --locked peers
	@touch $@

$(VENV)/.docs: $(VENV)/.pip requirements/docs.txt
	@$(BIN)/python tools/make_venv.py $(VENV) --locked docs
	@touch $@

$(VENV)/.dev: $(VENV)/.pip requirements/run.txt pyproject.toml $(RUST)
	@command -v cargo >/dev/null || { echo "make: cargo not found: install Rust 1.88 or newer (rustc, cargo)" >&2; exit 2; }
	@command -v cc >/dev/null || { echo "make: cc not found: rustc needs a C linker (Debian: apt-get install gcc libc6-dev)" >&2; exit 2; }
	@$(BIN)/python tools/make_venv.py $(VENV) --locked run
	$(BIN)/maturin develop --release --locked >/dev/null
	@touch $@
