# Targets to build, check and maintain headgate. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

GO ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Release builds hold no paths of the machine that built them.
TRIMPATH ?= -trimpath

# Tools are run from source at these versions; they are not in go.mod.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
GOVULNCHECK := golang.org/x/vuln/cmd/govulncheck@v1.9.0

# Fuzzing: seconds per function, and for all functions together in `make test`.
FUZZ_EACH ?= 5
FUZZ_ALL ?= 120
FUZZ_LONG ?= 60

# Flags of tests with the race detector. It leaves out SQLite, which is translated from C: to compile and run that with
# the detector takes longer than all the rest, and its memory and locks are not Go's.
RACE := -race -shuffle=on -gcflags=modernc.org/sqlite/lib=-race=false -gcflags=modernc.org/libc=-race=false

# `make soak` runs for about this many minutes.
SOAK_MINUTES ?= 30

export GO STATICCHECK GOVULNCHECK RACE FUZZ_EACH FUZZ_ALL SOAK_MINUTES

.DEFAULT_GOAL := help

##@ Use

.PHONY: build
build: ## Build bin/headgate
	$(GO) build $(TRIMPATH) -ldflags '-s -w -X main.release=$(VERSION)' -o bin/headgate ./cmd/headgate

.PHONY: demo
demo: build ## Compare admission control with an uncontrolled copy (ARGS="--speed 40" passes flags)
	@./bin/headgate demo $(ARGS)

##@ Check

.PHONY: test
test: ## Everything that CI checks; installs missing tools on Debian as root
	@.ci/test.sh

.PHONY: unit
unit: ## Tests of the main module, without the race detector
	$(GO) test ./...

.PHONY: race
race: ## Tests of the main module with the race detector, in random order
	$(GO) test $(RACE) ./...

.PHONY: e2e
e2e: ## The whole program with real OpenAI clients, and its pages in Chromium
	@.ci/e2e.sh

.PHONY: arch
arch: ## Compare the source with docs/ARCHITECTURE.md
	$(GO) test -count=1 ./internal/archtest

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, shell syntax
	@.ci/lint.sh

.PHONY: lines
lines: ## Lines of code, comments and files by package, and their limits
	@.ci/lines.sh

.PHONY: vuln
vuln: ## Known vulnerabilities of dependencies, if their database can be reached
	@.ci/vuln.sh || [[ $$? -eq 77 ]]

.PHONY: licences
licences: ## Licences of all dependencies, including those of tests
	@.ci/licences.sh

##@ Longer checks (not in CI)

.PHONY: loaded
loaded: ## Unit tests and whole program (without Chromium) on a busy machine
	@.ci/loaded.sh

.PHONY: fuzz
fuzz: ## Run every fuzz function for FUZZ_LONG seconds
	@FUZZ_EACH=$(FUZZ_LONG) FUZZ_ALL=0 .ci/fuzz.sh

.PHONY: bench
bench: ## All benchmarks; the proxy compared with others (HAProxy if installed)
	@.ci/bench.sh

.PHONY: proof
proof: ## Acceptance tests: hundreds of kill -9, every fault, every drill (hours)
	@.ci/stage.sh acceptance proof "e2e/acceptance has no tests"

.PHONY: soak
soak: ## Repeat the race tests in random order for SOAK_MINUTES
	@.ci/soak.sh

.PHONY: agents
agents: ## Codex CLI and opencode through headgate (downloads about 1 GB from npm)
	@.ci/stage.sh agents agents "e2e/agents has no tests"

.PHONY: shots
shots: ## Screenshots of every page, light, dark, printed and on a phone, in e2e/browser/shots
	@.ci/tools.sh chromium
	HEADGATE_SHOTS=1 $(GO) -C e2e test -count=1 -run 'TestEveryPage|TestBurst' ./browser

.PHONY: pictures
pictures: ## The pictures of the README in docs/img (four minutes: a burst in real time)
	@.ci/tools.sh chromium
	$(GO) -C e2e test -count=1 -timeout 30m -tags pictures -run TestPicturesForReadme ./browser

.PHONY: cover
cover: ## Coverage of the main module, in coverage/
	@mkdir -p coverage
	$(GO) test -coverprofile=coverage/cover.out ./...
	$(GO) tool cover -html=coverage/cover.out -o coverage/cover.html
	@$(GO) tool cover -func=coverage/cover.out | tail -n 1

##@ Maintain

.PHONY: fmt
fmt: ## Format the Go files
	@.ci/gofiles.sh | xargs -r -0 gofmt -w

.PHONY: clean
clean: ## Remove build output, coverage and installed npm packages
	rm -rf bin coverage
	find . -name node_modules -type d -prune -exec rm -rf {} +

.PHONY: help
help: ## Show this list
	@awk -f .ci/help.awk $(MAKEFILE_LIST)
