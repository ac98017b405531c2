# Everything is built with the one optimised profile and into one target
# directory, so that RocksDB is compiled once for the server, the tests, clippy
# and the benchmarks.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

# ccache is found through its compiler links, not through CC and CXX: cargo
# watches those, and would build RocksDB again when they change.
export PATH := /usr/lib/ccache:$(PATH)

CARGO := cargo
CARGO_FLAGS := --release --locked

# What others may depend on is complete in itself. Of two that depend on each other cargo
# would build the second with sources of the first that it unpacked at an earlier time.
PACKAGE := $(CARGO) package --locked --allow-dirty

# Runs the binary that was built, in Debian's Chromium.
CONSOLE_CHECK := cd tests/console && node --test --test-reporter=tap

# Runs the binary that was built, with both clients.
CLIENTS_CHECK := .venv/bin/python -m unittest discover --start-directory tests/clients

# Runs the binary that was built, and the tools in .venv.
DEPLOY_CHECK := .venv/bin/hadolint Dockerfile && \
	.venv/bin/python -m unittest discover --start-directory tests/deploy

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: serve
serve: ## Build the server and run it on 127.0.0.1:8080, data in ./data (CUCKOOD_* variables change that)
	@.ci/setup serve
	$(CARGO) build $(CARGO_FLAGS)
	@find target/release/build -name '*.alone' -exec cat {} + 2>/dev/null || true
	$(CARGO) run --quiet $(CARGO_FLAGS) -- serve

.PHONY: test
test: ## Check everything, from nothing: format, lints, docs, tests, OpenAPI, clients, deployment, console
	@.ci/setup test
	$(CARGO) fmt --check
	$(CARGO) clippy $(CARGO_FLAGS) --all-targets -- --deny warnings
	PROMTOOL=$(CURDIR)/.venv/bin/promtool NATS_SERVER=$(CURDIR)/.venv/bin/nats-server \
		tests/run.py $(CARGO_FLAGS)
	$(MAKE) --no-print-directory --jobs 3 --keep-going --output-sync $(OUTSIDE)

# What is asked of the program from outside, side by side: most of it waits. What is only
# compiled uses that time, and holds cargo's lock, for which the server would wait.
OUTSIDE := $(addprefix outside-,docs packages deploy console clients clients-redis clients-generated schemathesis serve openapi)
.PHONY: $(OUTSIDE)
outside-docs:
	RUSTDOCFLAGS='--deny warnings' $(CARGO) doc $(CARGO_FLAGS) --no-deps
outside-packages: outside-docs
	$(PACKAGE) --package cuckood-filter
	$(PACKAGE) --package cuckood-filter --package cuckood-file --no-verify
outside-openapi:
	.venv/bin/openapi-spec-validator openapi/openapi.json
outside-serve: outside-packages
	.ci/try-serve
outside-schemathesis:
	.venv/bin/python tests/schemathesis/run.py
outside-clients-generated:
	.venv/bin/python tests/clients/run.py
outside-clients-redis:
	.venv/bin/python tests/clients/redis/run.py
outside-clients:
	$(CLIENTS_CHECK)
outside-deploy:
	$(DEPLOY_CHECK)
outside-console:
	$(CONSOLE_CHECK)

.PHONY: clients-check
clients-check: ## Check the clients in clients/ against a real server
	@.ci/setup test
	$(CARGO) build $(CARGO_FLAGS)
	$(CLIENTS_CHECK)

.PHONY: console-check
console-check: ## Check the console in a real browser
	@.ci/setup test
	$(CARGO) build $(CARGO_FLAGS)
	$(CONSOLE_CHECK)

CASES := 50000
.PHONY: schemathesis
schemathesis: ## Send a server CASES requests made from its own description
	@.ci/setup test
	$(CARGO) build $(CARGO_FLAGS)
	nice .venv/bin/python tests/schemathesis/run.py --cases $(CASES)

SECONDS := 60
.PHONY: fuzz
fuzz: ## Feed arbitrary bytes to every reader of untrusted bytes, SECONDS each
	@.ci/setup serve
	nice fuzz/run $(SECONDS)

.PHONY: deploy-check
deploy-check: ## Check what deploys: image, chart, manifests, alerts, dashboard, pages for operators
	@.ci/setup test
	$(CARGO) build $(CARGO_FLAGS)
	$(DEPLOY_CHECK)

.PHONY: manifests
manifests: ## Render deploy/kubernetes anew from the chart
	@.ci/setup test
	.ci/render-manifests

.PHONY: crash
crash: ## Kill the server under load, CYCLES times (20), and compare what is there with what it acknowledged
	@.ci/setup serve
	CUCKOOD_CRASH_CYCLES=$(or $(CYCLES),20) $(CARGO) test $(CARGO_FLAGS) --test crash kill:: -- --nocapture

.PHONY: power-cut
power-cut: ## The same on a disk that forgets what was not forced to it, CYCLES times (6); needs /dev/fuse and root
	@.ci/setup serve
	CUCKOOD_TEST_REQUIRE=fuse CUCKOOD_POWER_CYCLES=$(or $(CYCLES),6) $(CARGO) test $(CARGO_FLAGS) --test crash power:: -- --nocapture

.PHONY: full-disk
full-disk: ## Fill the server's disk under load, and make room again; needs root
	@.ci/setup serve
	CUCKOOD_TEST_REQUIRE=tmpfs $(CARGO) test $(CARGO_FLAGS) --test crash full_disk:: -- --nocapture

.PHONY: hanging-disk
hanging-disk: SECONDS := 30
hanging-disk: ## Have the server's disk answer nothing under load, for SECONDS (30); needs /dev/fuse and root
	@.ci/setup serve
	CUCKOOD_TEST_REQUIRE=fuse CUCKOOD_STALL_SECONDS=$(SECONDS) $(CARGO) test $(CARGO_FLAGS) --test crash hang:: -- --nocapture

.PHONY: linearizable
linearizable: ## Check that what many clients see could have happened in one order, OPERATIONS of them (100000)
	@.ci/setup serve
	CUCKOOD_HISTORY_OPERATIONS=$(or $(OPERATIONS),100000) $(CARGO) test $(CARGO_FLAGS) --test linearizable -- --nocapture

.PHONY: cluster-chaos
cluster-chaos: ## Have brokers, pods and the network between them fail under load, ROUNDS times (100); needs root
	@.ci/setup test
	CUCKOOD_TEST_REQUIRE=netns,fuse CUCKOOD_CHAOS_ROUNDS=$(or $(ROUNDS),100) \
		NATS_SERVER=$(CURDIR)/.venv/bin/nats-server \
		$(CARGO) test $(CARGO_FLAGS) --test chaos rounds:: -- --nocapture

.PHONY: soak
soak: ## Kill the server, then let it live, among tenants that behave and one that does not, MINUTES in all (1)
	@.ci/setup serve
	CUCKOOD_SOAK_MINUTES=$(or $(MINUTES),1) $(CARGO) test $(CARGO_FLAGS) --test crash soak:: -- --ignored --nocapture

.PHONY: dearest
dearest: SECONDS := 3
dearest: ## Ask the dearest of each route and command over 64 connections beside a neighbour, SECONDS each (3)
	@.ci/setup serve
	CUCKOOD_DEAREST_SECONDS=$(SECONDS) CUCKOOD_TEST_QUIET=1 $(CARGO) test $(CARGO_FLAGS) --test dearest -- --nocapture --test-threads=1

.PHONY: bench
bench: ## Run the benchmarks
	@.ci/setup serve
	$(CARGO) bench --locked

.PHONY: load
load: ## Drive the real server against a bare handler, and draw it (target/load); REDIS=host:port takes part
	@.ci/setup serve
	$(CARGO) bench --locked --bench load -- $(if $(REDIS),--redis $(REDIS))

.PHONY: openapi
openapi: ## Write openapi/openapi.json anew from the code
	@.ci/setup serve
	CUCKOOD_WRITE_OPENAPI=1 $(CARGO) test --quiet $(CARGO_FLAGS) -p cuckood-http --lib the_committed_document

.PHONY: clients
clients: ## Write what is generated in clients/ anew, after a change to the API or to their sources
	@.ci/setup test
	python3 clients/python/generate.py
	clients/typescript/generate
