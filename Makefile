# varve: the commands of this repository. `make demo` and `make test` need nothing but a Rust toolchain; the rest of what
# they use is installed (as root) or asked for (as anybody else) by scripts/prerequisites.

PG ?= 15
PG_CONFIG ?= $(firstword $(wildcard /usr/lib/postgresql/$(PG)/bin/pg_config) pg_config)
TARGET ?= target
VERSION := $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" varve.control)
SQL := $(TARGET)/varve--$(VERSION).sql
# `make installcheck PROFILE=dev` is the quick way while developing.
PROFILE ?= release
BUILT := $(TARGET)/$(if $(filter dev,$(PROFILE)),debug,$(PROFILE))
LIBRARY := $(BUILT)/libvarve.so
# The test programs wait for servers most of their time: they are built the quick way, but for `make bench`.
PROGRAMS ?= dev
BENCH = $(TARGET)/$(if $(filter dev,$(PROGRAMS)),debug,$(PROGRAMS))/varve-bench
CARGO := PGRX_PG_CONFIG_PATH=$(PG_CONFIG) CARGO_TARGET_DIR=$(TARGET) cargo
SEED ?=
CHUNK_ROWS ?=
SUITE ?=

export PG PG_CONFIG TARGET PROFILE LIBRARY

.PHONY: all build sql programs bench bench-changes bench-rollups bench-rows bench-small bench-minutes bench-upserts bench-steady queries install installcheck check test test-here aggregates faults cancel resource-limits replicate logical differential model keys worker pgbench crash readme rollups core-suites vitals torture soak fuzz demo clean prerequisites

all: build

# --- the extension ---------------------------------------------------------------------------------------------------

build: sql
	$(CARGO) build --profile $(PROFILE) --package varve --no-default-features --features pg$(PG)

# The fragments of src/schema, in name order, are the script that CREATE EXTENSION runs.
sql:
	@mkdir -p $(TARGET)
	@cat src/schema/*.sql > $(SQL)

# What a database administrator types, after `make build`.
install:
	@test -f $(LIBRARY) || { echo "make build comes first" >&2; exit 1; }
	install -D -m 755 $(LIBRARY) '$(DESTDIR)$(shell $(PG_CONFIG) --pkglibdir)/varve.so'
	install -D -m 644 varve.control '$(DESTDIR)$(shell $(PG_CONFIG) --sharedir)/extension/varve.control'
	install -D -m 644 $(SQL) '$(DESTDIR)$(shell $(PG_CONFIG) --sharedir)/extension/varve--$(VERSION).sql'

# --- tests -----------------------------------------------------------------------------------------------------------

prerequisites:
	@scripts/prerequisites $(PG)

programs: prerequisites
	$(CARGO) build --profile $(PROGRAMS) --package varve-bench --bin varve-bench

# The bits that kernels for the baseline give, which those for the processor must give too.
BITS := VARVE_BITS=$(abspath $(TARGET))/bits

# No server: formatting, lints, the pure crate with its golden files and corpora, the test programs' own tests. The extension is
# checked in the profile that it is built in: what makes pgrx's bindings is then compiled and run once for both.
LINTS := --all-targets --quiet -- -D warnings
check: prerequisites
	cargo fmt --all --check
	$(CARGO) clippy --profile $(PROFILE) --package varve --no-default-features --features pg$(PG) $(LINTS)
	$(CARGO) clippy --package varve-columns --package varve-bench $(LINTS)
	$(BITS) $(CARGO) test --quiet --package varve-columns --features portable --test dispatch
	$(BITS) $(CARGO) test --quiet --package varve-columns --package varve-bench

# Everything that needs a server. Version 15 is the host's; any other runs in a Debian root of its own, with the host's programs.
test:
ifeq ($(PG),15)
	@$(MAKE) --no-print-directory programs test-here
else
	@$(MAKE) --no-print-directory PG=15 prerequisites programs
	@scripts/in-trixie $(PG) make test-here PG=$(PG) TARGET=build/target-$(PG) BENCH=$(BENCH)
endif

test-here: prerequisites build
	$(BENCH) test

installcheck: prerequisites build programs
	$(BENCH) installcheck

# One of the programs of `make test`; SEED=n repeats a run. `make core-suites CHUNK_ROWS=7 SUITE=isolation` is torture mode.
aggregates faults cancel resource-limits replicate logical differential model keys worker pgbench crash readme rollups core-suites: prerequisites build programs
	$(BENCH) $@ $(if $(SEED),--seed $(SEED)) $(if $(SECONDS),--seconds $(SECONDS)) $(if $(TRANSACTIONS),--transactions $(TRANSACTIONS)) $(if $(CHUNK_ROWS),--chunk-rows $(CHUNK_ROWS)) $(if $(SUITE),--suite $(SUITE))

# Exact counters, no times; the page is docs/vitals.md.
vitals: prerequisites build programs
	$(BENCH) vitals docs/vitals.md

# Size, speed and memory of tables, and queries, heap beside varve; half an hour; the pages are docs/tables.md and docs/queries.md.
bench: PROGRAMS = release
bench: prerequisites build programs
	$(BENCH) tables docs/tables.md
	$(BENCH) queries docs/queries.md --sensors $(SENSORS)

# The same of rollups alone: what they store and cost; five minutes; the page is docs/rollups.md.
bench-rollups: PROGRAMS = release
bench-rollups: prerequisites build programs
	$(BENCH) tables docs/rollups.md --section rollups

# Bulk changes of the cpu data; a minute; the page is docs/changes.md.
bench-changes: PROGRAMS = release
bench-changes: prerequisites build programs
	$(BENCH) tables docs/changes.md --section changes

# Changes of single compressed rows, and small transactions with the worker; two and four minutes; the pages are docs/rows.md and docs/small.md.
bench-rows: PROGRAMS = release
bench-rows: prerequisites build programs
	$(BENCH) tables docs/rows.md --section rows

bench-small: PROGRAMS = release
bench-small: prerequisites build programs
	$(BENCH) tables docs/small.md --section small

# Transactions of a row for MINUTES, and as long on a heap beside it; the page is docs/minutes.md.
bench-minutes: PROGRAMS = release
bench-minutes: prerequisites build programs
	$(BENCH) tables docs/minutes.md --section minutes --minutes $(MINUTES)

# Upserts of compressed rows for five minutes, and as long on a heap before it; the page is docs/upserts.md.
bench-upserts: PROGRAMS = release
bench-upserts: prerequisites build programs
	$(BENCH) tables docs/upserts.md --section upserts --minutes 5

# Small statements of thousands of series for long, with a compact now and then; two minutes; the page is docs/steady.md.
bench-steady: PROGRAMS = release
bench-steady: prerequisites build programs
	$(BENCH) tables docs/steady.md --section steady

# Aggregates by columns, heap beside varve; five minutes; the page is docs/queries.md. SENSORS=500 is the size of the
# published benchmark, which its goals are for; half an hour. SENSORS=0 leaves its data out.
SENSORS ?= 50
queries: PROGRAMS = release
queries: prerequisites build programs
	$(BENCH) queries docs/queries.md --sensors $(SENSORS)

# An hour or more; its page is docs/torture.md.
torture: prerequisites build programs
	$(BENCH) torture docs/torture.md $(if $(SEED),--seed $(SEED))

# MINUTES of small inserts, late rows, new columns, retention and readers, beside a heap; the page is docs/soak.md.
MINUTES ?= 10
soak: prerequisites build programs
	$(BENCH) soak docs/soak.md --minutes $(MINUTES)

# FUZZ_SECONDS for each target; their corpora are replayed by `make check`.
FUZZ_SECONDS ?= 60
fuzz:
	@scripts/fuzz $(FUZZ_SECONDS)

# --- what a person sees ----------------------------------------------------------------------------------------------

# Real data into a heap and a varve table of a throw-away cluster: sizes, a dashboard query, its plan.
demo: prerequisites build programs
	@$(BENCH) demo

include bench/codecs.mk

clean:
	rm -rf $(TARGET) build
