# Each target is the set-up and then plain cargo. ARGS is handed on: make demo ARGS='--count 200 --json'

.PHONY: help setup demo test bench chaos peers lint doc

help: ## Say what there is
	@sed -n 's/^\([a-z]*\):.* ## /\1\t/p' Makefile

setup: ## Find a PostgreSQL server, or install one
	@.ci/setup

demo: setup ## Start a server, insert rows, watch them being sent
	cargo run --release --locked -- demo $(ARGS)

# The tests mostly wait, so more of them than there are cores run at once.
test: export RUST_TEST_THREADS ?= 8
test: setup ## Run all tests
	cargo test --locked $(ARGS)

bench: setup ## Run every benchmark, and write benches/RESULTS.md
	benches/report $(ARGS)

chaos: setup ## Ten minutes of faults by chance; ARGS="--runs 5 --seconds 60"
	cargo bench --locked --bench chaos -- $(ARGS)

peers: setup ## Measure beside two other queues
	cargo run --release --locked --manifest-path benches/peers/Cargo.toml -- $(ARGS)

lint: setup ## Check format and code
	cargo fmt --check
	cargo clippy --locked --all-targets -- -D warnings

doc: setup ## Build the documentation
	RUSTDOCFLAGS='-D warnings' cargo doc --locked --no-deps --all-features $(ARGS)
