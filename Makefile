# The commands of the project. Each installs what it needs (Debian 12 or 13, as root).
# Long runs take their size: make crash ROUNDS=1000 SEED=7, make fuzz SECONDS=600,
# make bench REPETITIONS=5, make bench POINTS=disk.

CARGO := scripts/cargo.sh
PYTHON := /usr/bin/python3

ROUNDS ?= 50
SEED ?=
LEGS ?= none
# 1: of the crash proofs the one of files.
FILES ?=
FUZZ_SECONDS ?= $(or $(SECONDS),60)
REPETITIONS ?= 3
DISK_REPETITIONS ?= 1
# Parts of names of points, separated by commas; empty: all.
POINTS ?=
# A folder with the library of make libzpool, to build with; empty: Debian's library.
LIBZPOOL ?=
ifneq ($(LIBZPOOL),)
export BULKHEAD_LIBZPOOL := $(LIBZPOOL)
endif
# ROUNDS has a default for crashes; drills take longer.
DRILL_ROUNDS ?= $(if $(filter command environment,$(firstword $(origin ROUNDS))),$(ROUNDS),20)
# The program that is drilled.
BULKHEAD ?= target/release/bulkhead
PREFIX ?= /usr/local
DESTDIR ?=

.DEFAULT_GOAL := help
.PHONY: help deps build install deb deb-witness deb-ceph demo demo-legs demo-single test check nightly lint unit conformance crash crash-files crash-volumes legs hostile files rollback operations operations-crash operations-steps guide growth ceph runbooks races repeats older-locks mounted-files requests api drill drill-short drill-examples stock linux fuzz bench console screenshots libzpool release release-check repository upgrades

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

deps: ## install everything that building, testing and measuring needs
	@scripts/deps.sh bench

# A check builds once for all of its steps, and names what it built in BULKHEAD (proof/check).
ifdef BULKHEAD_PREPARED
build:
else
build: ## target/release/bulkhead, bulkhead-agent and bulkhead-witness
	@scripts/deps.sh build
	scripts/console.sh
	$(CARGO) build --release --locked -p bulkhead -p bulkhead-witness
endif

install: ## what was built, under PREFIX (/usr/local), below DESTDIR
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) scripts/install.sh

deb: build ## target/bulkhead_VERSION_ARCH.deb for heads, bulkhead-witness_VERSION_ARCH.deb for a third machine
	@scripts/deb.sh

deb-witness: ## the package for the third machine alone, on a machine of its kind, such as a Raspberry Pi: no ZFS, a few minutes
	@scripts/deps.sh witness
	$(CARGO) build --release --locked -p bulkhead-witness
	@scripts/deb.sh target witness

deb-ceph: ## target/bulkhead-ceph_VERSION_ARCH.deb, the server of volumes on a Ceph cluster: no ZFS
	@scripts/deps.sh ceph
	$(CARGO) build --release --locked --manifest-path engines/ceph/Cargo.toml --target-dir target/ceph -p bulkhead-ceph
	@scripts/deb.sh target ceph

release: ## target/release-VERSION: both packages, bulkhead-libzpool, debug symbols, SBOM, notes, checksums, of what is committed
	@scripts/deps.sh build
	@scripts/deps.sh libzpool
	scripts/release.sh

release-check: ## the same, built twice and compared
	@scripts/deps.sh build
	@scripts/deps.sh libzpool
	scripts/release.sh --twice

repository: ## target/repository: what the release made, for apt, signed by REPOSITORY_KEY; PACKAGES names other directories
	scripts/repository.sh $(PACKAGES)

demo: build ## two heads: the power of the serving one is pulled, clients go on
	@scripts/deps.sh test
	$(PYTHON) -m proof.demo

demo-legs: build ## two heads without shared disks: a leg is lost and comes back, and a stale one refuses
	@scripts/deps.sh test
	$(PYTHON) -m proof.demo_legs

demo-single: build ## one head: a pool, volumes, stock clients, kill -9, nothing lost
	@scripts/deps.sh test
	$(PYTHON) -m proof.demo_single

lint: ## formatting, clippy, layers, house rules
	@scripts/deps.sh build
# cargo fmt does not see modules that a macro declares.
	$(CARGO) fmt --check -- $$(find core/control/src/operations -name '*.rs')
	cd fuzz && ../$(CARGO) metadata --locked --format-version 1 > /dev/null
	cd engines/ceph && ../../$(CARGO) fmt --check -p ceph -p ceph-sys -p bulkhead-ceph
	cd engines/ceph && ../../$(CARGO) metadata --locked --format-version 1 > /dev/null
	scripts/lint.sh
	scripts/audit.sh
	$(CARGO) test --locked -q -p xtask

unit: ## tests of the crates, a process each, and of the checkers
	@scripts/deps.sh check
	scripts/console.sh
	$(CARGO) nextest run --workspace --locked --no-fail-fast
	$(PYTHON) -m proof.tests

conformance: build ## iscsi-test-cu and the NBD clients
	@scripts/deps.sh test
	$(PYTHON) -m proof.conformance

crash: $(if $(FILES),crash-files,crash-volumes) ## ROUNDS kills with verified clients; LEGS=mix harms a leg meanwhile, ONE_FILE=1 has no mirror; FILES=1: of who changes files

crash-files:
	@scripts/deps.sh test
	$(if $(BULKHEAD_PREPARED),,$(CARGO) build --workspace --locked --example files)
	$(PYTHON) -m proof.files --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

crash-volumes: build
	@scripts/deps.sh test
	$(PYTHON) -m proof.crash --rounds $(ROUNDS) --legs-fault $(LEGS) $(if $(ONE_FILE),--one-file) $(if $(SEED),--seed $(SEED))

legs: build ## heads without shared disks: ROUNDS of lost processes, power, cables and disks, and no write is lost
	@scripts/deps.sh test
	$(PYTHON) -m proof.legs --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

hostile: build ## clients that misbehave beside one that does not
	@scripts/deps.sh test
	$(PYTHON) -m proof.hostile

rollback: build ## ROUNDS of rollbacks under writing clients, some killed in the middle
	@scripts/deps.sh test
	$(PYTHON) -m proof.rollback --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

races: build ## many initiators change the same blocks at the same time, also when the server is killed
	@scripts/deps.sh test
	$(PYTHON) -m proof.races $(if $(SEED),--seed $(SEED))

repeats: build ## ROUNDS of kills under NFS clients that change names and attributes: what they ask again is answered as the first time
	@scripts/deps.sh test
	$(PYTHON) -m proof.nfs.repeats --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

older-locks: build ## ROUNDS of kills under clients of NFS 3 with locks: each is told, and takes back its lock
	@scripts/deps.sh test
	$(PYTHON) -m proof.nfs.older_locks --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

files: build ## every judge of files over NFS and of their form on disk, with the counts of each; JUDGE=pynfs for some
	@scripts/deps.sh test
	$(if $(BULKHEAD_PREPARED),,$(CARGO) build --workspace --locked --examples)
	$(PYTHON) -m proof.check files '$(JUDGE)'

mounted-files: build ## pjdfstest and fsx on a file system of a pool that is mounted by FUSE: root and /dev/fuse
	@scripts/deps.sh test
	$(PYTHON) -m proof.mount $(if $(SEED),--seed $(SEED))

requests: build ## random requests about what is there, for REQUESTS_SECONDS: the server outlives them all
	@scripts/deps.sh test
	$(PYTHON) -m proof.requests --seconds $(or $(REQUESTS_SECONDS),20) $(if $(SEED),--seed $(SEED))

operations: build ## each verb once with a server that runs, beside stock clients at work
	@scripts/deps.sh test
	$(PYTHON) -m proof.operations --whole

guide: build ## the commands of the guide, as its reader would run them
	@scripts/deps.sh test
	$(PYTHON) -m proof.guide

growth: build ## plans of growth next to Ceph's tools, the field report, and a small real cluster
	@scripts/deps.sh ceph
	$(PYTHON) -m proof.growth

ceph: ## the engine on Ceph, on a small real cluster: scenarios, random I/O, frozen and killed owners, a full pool
	@scripts/deps.sh ceph
	scripts/lint.sh ceph
	$(PYTHON) -m proof.ceph $(if $(SEED),--seed $(SEED))

runbooks: build ## the commands of the runbooks, on two heads of a lab
	@scripts/deps.sh test
	$(PYTHON) -m proof.runbooks

operations-crash: build ## ROUNDS of administrators' operations, each killed in the middle, with a server and without
	@scripts/deps.sh test
	$(PYTHON) -m proof.operations --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED))

operations-steps: build ## each administrators' operation killed at every STRIDE-th write, discard or flush of a disk: hours with STRIDE=1
	@scripts/deps.sh test
	$(PYTHON) -m proof.operations --every-step --stride $(or $(STRIDE),20) $(if $(SEED),--seed $(SEED))

api: build ## the HTTP API of a head: rights, limits, its document, metrics
	@scripts/deps.sh test
	$(PYTHON) -m proof.api

console: build ## journeys in a real Chromium, and what axe says of each page
	@scripts/deps.sh test
	cd console && npm run --silent check && npm run --silent test

screenshots: build ## the pictures of the readme, into docs/images
	@scripts/deps.sh test
	@mkdir -p /dev/disk/by-id
	unshare --mount sh -ec 'disks=$$(mktemp -d); trap "umount /dev/disk/by-id; rm -r $$disks" EXIT; mount --bind $$disks /dev/disk/by-id; cd console; node tests/screenshots.mjs'

drill: build ## ROUNDS of every fault of a pair in a lab, with the time-outs that are promised
	@scripts/deps.sh test
	$(BULKHEAD) drill --profile fast --rounds $(DRILL_ROUNDS) $(if $(SEED),--seed $(SEED))

# A machine that cannot run a lab (15) has said so, and skips it.
drill-short: build
	@scripts/deps.sh test
	$(BULKHEAD) drill --budget 10 $(if $(SEED),--seed $(SEED)) || [ $$? -eq 15 ]
	$(BULKHEAD) drill active-power --clients patient --budget 20 $(if $(SEED),--seed $(SEED)) || [ $$? -eq 15 ]

drill-examples: build ## each file in examples/ drilled once, with clients of all its pools
	@scripts/deps.sh test
	scripts/drill-examples.sh $(BULKHEAD) --budget 20 $(if $(SEED),--seed $(SEED))

stock: build ## ROUNDS of moves and lost power under qemu's own iSCSI and NBD clients
	@scripts/deps.sh test
	$(PYTHON) -m proof.stock $(if $(filter command environment,$(firstword $(origin ROUNDS))),--rounds $(ROUNDS))

upgrades: build ## two heads upgraded and downgraded under stock clients, with a fault in each step
	@scripts/deps.sh test
	$(PYTHON) -m proof.upgrade

linux: build ## a real Linux initiator, in a virtual machine
	@scripts/deps.sh linux
	$(CARGO) build --locked -p zpool --example files
	$(PYTHON) -m proof.linux

fuzz: ## SECONDS of coverage-guided fuzzing, shared by the parsers
	@scripts/deps.sh build
	scripts/fuzz.sh $(FUZZ_SECONDS)

bench: build ## beside tgt, nbdkit, qemu-nbd and the bare disk; tables, target/bench*.json; POINTS=disk for some
	@scripts/deps.sh bench
	$(PYTHON) -m proof.bench --repetitions $(REPETITIONS) $(if $(POINTS),--only $(POINTS))
	$(PYTHON) -m proof.bench disk --repetitions $(DISK_REPETITIONS) $(if $(POINTS),--only $(POINTS))
	$(PYTHON) -m proof.bench legs --repetitions $(REPETITIONS) $(if $(POINTS),--only $(POINTS))
	$(PYTHON) -m proof.bench nfs --repetitions $(REPETITIONS) $(if $(POINTS),--only $(POINTS))
	$(if $(POINTS),,$(PYTHON) -m proof.bench startup --volumes 1,1000)

libzpool: ## target/bulkhead-libzpool_VERSION_ARCH.deb, OpenZFS's library without debugging checks; minutes
	@scripts/deps.sh libzpool
	scripts/libzpool.sh

test: ## everything, in the short form
	@scripts/deps.sh check
	$(PYTHON) -m proof.check test

check: ## before a commit: lint, and what tests the files that differ from BASE (HEAD)
	@scripts/deps.sh check
	$(PYTHON) -m proof.check change $(or $(BASE),HEAD)

nightly: ## PART 1 to 4 of the long forms, on the packaged programs
	@scripts/deps.sh $(if $(filter 4,$(PART)),linux,test)
	$(PYTHON) -m proof.check nightly $(PART)
