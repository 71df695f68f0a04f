# Every target says what it does; `make` alone lists them.
GO ?= go
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# The packages with tests in virtual time. Under the race detector they get one processor: Go 1.26 crashes (SIGSEGV in
# unlockAndRun) where two goroutines of one bubble meet timers that are due at the same time. The scheduler takes
# longest, and begins first.
BUBBLES = $(shell grep -rl '"testing/synctest"' --include=*_test.go . | sed 's|/[^/]*$$||; s|^\.|github.com/dibs-run/dibs|' | sort -u)
# The tests that start whole processes.
PROCESSES := -e /internal/test/e2e -e /internal/test/stress -e /internal/test/pages -e /internal/test/chaos
# Runs a command with what all test processes share: servers, whose data is in memory, and binaries.
SUITE := $(GO) run ./internal/test/suite
# Most tests wait most of the time. Package room has those of servers and processes begin when there is room for them.
BESIDE := -p 4 -parallel 6
# The packages that use the processors without a pause come last, and by themselves.
BUSY := -e /internal/test/stress -e /internal/test/chaos
# The packages that take longest begin first.
LONGEST := ./internal/test/e2e ./store/mysql ./store/postgres ./store/redis ./store/file ./internal/test/e2e/programs ./run/command
# What needs neither servers nor whole programs.
PURE = $(shell $(GO) list ./... | grep -v -e /store/file -e /store/redis -e /store/postgres -e /store/mysql -e /cmd/dibs -e /run/command -e /internal/test/)
# What is tested is what is installed: without C.
export CGO_ENABLED := 0

.PHONY: help build run held test tests check checks test-race races chaoses test-long chaos million mutants lint bench fuzz dist boot

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' Makefile | expand -t 18

build: ## build bin/dibs
	@$(GO) build -trimpath -o bin/dibs ./cmd/dibs

run: ## demo: three servers, one is killed in the middle of a run (45 s)
	@echo "building dibs (the first time takes a minute or two) …"
	@$(MAKE) --no-print-directory build
	@$(GO) run ./internal/test/demo bin/dibs

# The version of what make dist makes, without a v.
VERSION ?= 0.1.0

dist: ## build binaries, packages, an image and a chart in dist/, VERSION=0.1.0
	@cd packaging && $(GO) run . -version $(VERSION)

held: ## write docs/why/held.md: which test holds which promise and rule
	@$(GO) run ./internal/test/holds

test: ## run all tests (some ten minutes on two cores), on servers that are started here or already run
	@$(SUITE) $(MAKE) --no-print-directory tests

# Modules of their own: what they are made of is nothing that dibs needs.
MODULES := internal/test/kube packaging
# Compiles what the tests of a module consist of, but for linking it. A compiler beside tests would take their processors.
COMPILE := $(GO) list -export -test -f ''

# The cache knows neither the servers nor the binaries: nothing is taken from it.
tests:
	@echo "compiling the tests (the first time takes some minutes) …"
	@for module in . $(MODULES); do (cd $$module && $(COMPILE) ./... >/dev/null) || exit; done
	@(for module in $(MODULES); do (cd $$module && $(GO) test -count=1 ./...) || status=1; done; exit $$status) & modules=$$!; \
	$(GO) test -short -count=1 -timeout 30m $(BESIDE) $(LONGEST) $$($(GO) list ./... | grep -v $(BUSY)); status=$$?; \
	wait $$modules || status=1; \
	$(GO) test -short -count=1 -timeout 30m -p 2 $$($(GO) list ./... | grep $(BUSY)) || status=1; exit $$status

check: ## the inner loop: go vet, the packages without servers, and the suite of stores on a directory and Redis
	@$(GO) vet ./...
	@$(SUITE) $(MAKE) --no-print-directory checks

checks:
	@$(GO) test -short -count=1 $(BESIDE) ./scheduler $(PURE) & pure=$$!; \
	$(GO) test -short -count=1 -parallel 4 -run '^TestStore$$' ./store/file ./store/redis; status=$$?; \
	wait $$pure || status=1; exit $$status

# SQLite is C that was translated to Go. The detector finds nothing of ours in it, and makes it ten times as slow.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# What make test and the race round leave to the long ones.
SHORT ?= -short

test-race: ## run all tests with the race detector, except those of processes and of servers that are hurt
	@$(SUITE) $(MAKE) --no-print-directory races

races: export CGO_ENABLED := 1
races:
	@$(COMPILE) $(RACE) ./... >/dev/null
	@$(GO) test $(RACE) $(SHORT) -cpu 1 -count=1 -timeout 30m -parallel 2 ./scheduler $(BUBBLES) & bubbles=$$!; \
	$(GO) test $(RACE) $(SHORT) -count=1 -timeout 30m -parallel 2 $$($(GO) list ./... | grep -v $(PROCESSES) | grep -vxF $(BUBBLES:%=-e %)); status=$$?; \
	wait $$bubbles || status=1; exit $$status

# How much of the long rounds: 1 is the whole of them.
LONG ?= 1

test-long: ## the race detector, also on servers that are hurt, and the long rounds (LONG=0.2: a fifth of what can be had in parts)
	@DIBS_TEST_RACE=all $(MAKE) --no-print-directory test-race SHORT=
	@DIBS_TEST_LONG=$(LONG) $(GO) test -count=1 -timeout 40m ./schedule ./scheduler
	@DIBS_TEST_LONG=$(LONG) $(GO) test -p 1 -count=1 -timeout 40m ./internal/test/e2e ./internal/test/stress
	@DIBS_TEST_LONG=$(LONG) DIBS_TEST_TASKS=10000 $(GO) test -count=1 -timeout 20m ./internal/test/stress/work

# How long chaos reigns, and on which stores; on two cores they take turns, as they do in make million.
CHAOS ?= 30m
STORES ?= redis postgres mariadb directory

chaos: ## random faults on three hosts, CHAOS=30m on each of STORES; needs root and iproute2
	@$(SUITE) $(MAKE) --no-print-directory chaoses

chaoses:
	@export DIBS_TEST_CHAOS=$(CHAOS); status=0; \
	for store in $(STORES); do $(GO) test -count=1 -timeout 3h -v -run "^TestChaos$$/^$$store$$" ./internal/test/chaos || status=1; done; exit $$status

million: ## a million tasks in and out of each of STORES, charts in docs/img; LONG=0.3: a part of them; needs 8 GB
	@mkdir -p docs/img; status=0; \
	for store in $(STORES); do DIBS_TEST_LONG=$(LONG) DIBS_TEST_PICTURES=$(CURDIR)/docs/img \
		$(GO) test -count=1 -timeout 3h -v -run "^TestAMillionInAndOut$$/^$$store$$" ./internal/test/stress/million || status=1; \
	done; exit $$status

# Where the virtual machine's system is kept for the next time.
BOOT ?= $(CURDIR)/.boot

boot: dist ## boot a Debian in a virtual machine: services, timers, a power cut; ten minutes; needs root, qemu, debootstrap
	@mkdir -p $(BOOT) && DIBS_TEST_BOOT=$(BOOT) $(GO) test -count=1 -v -timeout 60m -run '^TestBoot$$' ./internal/test/boot

# Which bugs: all, those of a package (./lease), or one (lease/acquire-unbounded).
PKG ?= all

mutants: ## show which plausible bugs the tests find, PKG=./lease: of one package; all of them take hours
	@DIBS_TEST_MUTANTS="$(PKG)" $(GO) test -v -count=1 -timeout 24h -run '^TestMutants$$' ./internal/test/mutants

lint: ## go vet, staticcheck, gofmt
	@$(GO) vet ./...
	@$(GO) vet -tags dibstest ./...
	@$(GO) run $(STATICCHECK) ./...
	@test -z "$$(gofmt -l . | tee -a /dev/stderr)" || { echo "gofmt the files above"; exit 1; }

bench: ## measure dibs beside similar programs, in one run
	@cd bench && ./run

fuzz: ## fuzz the parsers for a minute each
	@$(GO) test -fuzz FuzzParse -fuzztime 60s ./schedule
	@$(GO) test -fuzz FuzzParse -fuzztime 60s ./deploy/crontab
	@$(GO) test -fuzz FuzzLoad -fuzztime 60s ./manifest
