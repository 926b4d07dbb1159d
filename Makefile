# Needs Go, git and make. Everything is built in bin/, which git ignores.

GO          ?= go
K8S_VERSION ?= v1.37.2
RUN_CONFIG  ?= examples/run.yaml
RUN_FLAGS   ?=
FUZZ_TIME   ?= 10000x
BENCH_FLAGS ?=
REDACT_FLAGS ?=
STORY_FLAGS ?=

# The chaos run: the first seed, the number of seeds, and the duration of each one's faults.
CHAOS_SEED     ?= 1
CHAOS_SEEDS    ?= 5
CHAOS_DURATION ?= 6m

# What make capacity computes the costs of: nodes and pods of each cluster, and changes per second and 1,000 pods.
NODES          ?= 5000
PODS           ?= 150000
CLUSTERS       ?= 1
CHANGES        ?= 0.1
CAPACITY_FLAGS ?=

# How many runs of the model of the takeover make model makes.
MODEL_SEEDS ?= 20000

COLLECTOR := bin/otelcol-watchlist
COMMAND   := bin/k8swatchlist
PEER      := bin/otelcol-peer
ELECTOR   := bin/otelcol-elector
VICTORIALOGS := bin/tools/victoria-logs
CONTROLLERS := $(addprefix bin/story/,kube-controller-manager kube-scheduler kwok)
PROGRESS  := tools/progress.sh
FIGURES   := -figures ../docs/performance-figures.md -gateway-figures ../docs/gateway-figures.md

# Binaries carry no version control information, and a parent folder must not change how these modules are built.
export GOFLAGS := $(shell $(GO) env GOFLAGS) -buildvcs=false
export GOWORK  := off

# The race detector needs a C compiler.
RACE := $(if $(filter 1,$(shell $(GO) env CGO_ENABLED)),-race)

# The sources of the Collector: the root module without its tests.
SOURCES := $(shell find . \( -path ./.git -o -path ./bin -o -path ./cmd -o -path ./tools -o -path ./test -o -path ./bench -o -path ./internal/testkit \) -prune \
	-o -name '*.go' ! -name '*_test.go' -print)
BENCH_SOURCES := $(shell find bench internal/testkit -name '*.go' ! -name '*_test.go') bench/go.mod bench/go.sum
COMMAND_SOURCES := $(shell find cmd -name '*.go' ! -name '*_test.go') cmd/k8swatchlist/go.mod cmd/k8swatchlist/go.sum
MONITORING_SOURCES := $(filter-out %_test.go,$(wildcard tools/monitoring/*.go)) tools/monitoring/go.mod tools/monitoring/go.sum
RUN_SOURCES := $(shell find tools/controlplane -name '*.go' ! -name '*_test.go')

# Modules with our own packages, and modules that only pin other programs.
PINS    := tools tools/kubernetes tools/kwok tools/linters tools/victorialogs
MODULES := . $(filter-out $(PINS),$(patsubst %/go.mod,%,$(wildcard */go.mod cmd/*/go.mod internal/*/go.mod tools/*/go.mod)))

SCRIPTS := .ci/run $(wildcard tools/*.sh)

# Prints the folder of the control plane's binaries, downloading or building them first if necessary.
GET_CONTROL_PLANE := tools/control-plane.sh $(K8S_VERSION) bin/k8s/$(K8S_VERSION)

.PHONY: help
help: ## Show this help
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## /{printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "  KUBECONFIG=FILE make run               watch your own cluster"
	@echo "  KUBECONFIG=FILE make demo RUN_FLAGS='-namespace default'"
	@echo "  make run RUN_FLAGS='-duration 1m'      end by itself"
	@echo "  KUBEBUILDER_ASSETS=FOLDER make test    with your own etcd and kube-apiserver"
	@echo "  CONTROL_PLANE=build make run           build etcd and kube-apiserver, never download them"
	@echo "  make chaos CHAOS_SEED=7 CHAOS_SEEDS=1  one seed of the chaos run again"
	@echo "  make redact < object.yaml              see what would leave of your own objects"
	@echo "  make chaos CHAOS_FAULTS='disk full'    only some kinds of faults, with commas between them"
	@echo "  make capacity NODES=500 PODS=15000 CLUSTERS=40    CAPACITY_FLAGS=-help lists more assumptions"
	@echo "  make bench BENCH_FLAGS=-quick          small and short; -help lists more flags"

.PHONY: build
build: $(COLLECTOR) ## Build the collector, bin/otelcol-watchlist, with ocb

$(COLLECTOR): $(SOURCES) go.mod go.sum builder-config.yaml bin/tools/builder
	@$(PROGRESS) "building the collector" bin/tools/builder --config builder-config.yaml
	@cp bin/otelcol-build/otelcol-watchlist $@.new && mv $@.new $@

bin/tools/redact: $(SOURCES) tools/redact/main.go tools/redact/go.mod tools/redact/go.sum
	@mkdir -p bin/tools
	@cd tools/redact && ../progress.sh -q "building the program of make redact" $(GO) build -v -o ../../$@ .
	@touch $@

.PHONY: command
command: $(COMMAND) ## Build bin/k8swatchlist, the command that prepares and checks the receiver

$(COMMAND): $(COMMAND_SOURCES) $(SOURCES)
	@cd cmd/k8swatchlist && ../../tools/progress.sh -q "building the command" $(GO) build -v -o ../../$@ .
	@touch $@

.PHONY: redact
redact: bin/tools/redact ## Print the objects on standard input as they would be emitted, and which rule masked what
	@bin/tools/redact $(REDACT_FLAGS)

.PHONY: control-plane
control-plane: ## Download etcd and kube-apiserver, or build them; the last line printed is their folder
	@$(GET_CONTROL_PLANE)

.PHONY: run
run: $(COLLECTOR) bin/tools/run ## Run the collector on the cluster of $KUBECONFIG, or on a control plane with a sample workload
	@folder=; [ -n "$$KUBECONFIG" ] || folder=$$($(GET_CONTROL_PLANE)) || exit; \
	exec bin/tools/run -collector $(COLLECTOR) -config $(RUN_CONFIG) -binaries "$$folder" $(RUN_FLAGS)

.PHONY: demo
demo: $(COLLECTOR) bin/tools/run $(VICTORIALOGS) ## Like make run, with VictoriaLogs behind the collector: what changed, who scaled it, what disappeared
	@folder=; [ -n "$$KUBECONFIG" ] || folder=$$($(GET_CONTROL_PLANE)) || exit; \
	exec bin/tools/run -collector $(COLLECTOR) -config examples/demo.yaml -victorialogs $(VICTORIALOGS) -binaries "$$folder" $(RUN_FLAGS)

.PHONY: demo-picture
demo-picture: RUN_FLAGS = -picture docs/img/victorialogs.png -pace 500ms
demo-picture: demo ## Take the picture in README.md, with chromium or the browser in $BROWSER

.PHONY: story
story: $(COLLECTOR) bin/tools/story $(CONTROLLERS) ## Roll out a Deployment with real controllers and nodes of kwok, and print what is emitted
	@folder=$$($(GET_CONTROL_PLANE)) || exit; \
	exec bin/tools/story -collector $(COLLECTOR) -config examples/story.yaml -controllers bin/story -binaries "$$folder" $(STORY_FLAGS)

.PHONY: story-docs
story-docs: STORY_FLAGS = -page docs/story.md
story-docs: story ## Write the story in docs/story.md again

.PHONY: test
test: test-unit test-cost test-fuzz test-bench test-scripts test-monitoring test-ocb test-controlplane test-e2e test-command test-chaos ## Run all tests
	@echo "all tests passed"

.PHONY: test-unit
test-unit: ## Run the tests of the receiver
	@[ -n "$(RACE)" ] || echo "no C compiler: the tests run without the race detector"
	@$(PROGRESS) "unit tests" $(GO) test $(RACE) -timeout 20m ./...

.PHONY: test-cost
test-cost: ## Check the allocations of a frame, and that each benchmark still runs
	@$(PROGRESS) "allocations and benchmarks" $(GO) test -run 'Allocations|FewBytes' -bench . -benchtime 1x ./internal/...

.PHONY: test-fuzz
# A number of executions: with a time limit, go test sometimes fails although no input does
# (https://go.dev/issue/75804).
test-fuzz: ## Run each fuzzer for FUZZ_TIME
	@for package in $$(grep -rl --include='*_test.go' '^func Fuzz' internal | xargs -n 1 dirname | sort -u); do \
		for fuzzer in $$(grep -rhoE --include='*_test.go' '^func Fuzz[A-Za-z]+' $$package | cut -c 6-); do \
			$(PROGRESS) "$$fuzzer in $$package" $(GO) test ./$$package -run '^$$' -fuzz "^$$fuzzer\$$" -fuzztime $(FUZZ_TIME) || exit; \
		done; \
	done

.PHONY: test-bench
test-bench: ## Run the tests of the benchmarks: every contender reads everything from the replay server
	@cd bench && ../tools/progress.sh "bench tests" $(GO) test $(RACE) -timeout 10m ./...

.PHONY: test-scripts
test-scripts: ## Run the tests of the scripts: which control plane binaries are used, release notes
	@cd tools/checks && ../progress.sh "script tests" $(GO) test -count 1 -timeout 10m ./controlplane/ ./release/

.PHONY: test-monitoring
test-monitoring: ## Run the tests of the alerting rules and the dashboard, with Prometheus's own packages
	@cd tools/monitoring && ../progress.sh "tests of rules and dashboard" $(GO) test -timeout 10m ./...

.PHONY: test-ocb
test-ocb: bin/tools/builder ## Build a Collector from this checkout in another folder, as described in README.md
	@cd tools/checks && OCB_BINARY=$(CURDIR)/bin/tools/builder \
	../progress.sh "ocb test" $(GO) test -count 1 -timeout 20m -v ./ocb/

.PHONY: test-controlplane
test-controlplane: ## Run the tests of the control plane, against its real binaries
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd tools/controlplane && \
	KUBEBUILDER_ASSETS=$$folder ../progress.sh "control plane tests" $(GO) test $(RACE) -timeout 20m ./...

# The tests wait much more than they compute, so that more of them run at once than there are cores.
E2E_PARALLEL ?= 3

.PHONY: test-e2e
test-e2e: $(COLLECTOR) $(PEER) $(ELECTOR) $(VICTORIALOGS) bin/tools/monitoring ## Run the end-to-end tests, against a real control plane and the real collector
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	export KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) OTELCOL_PEER_BINARY=$(CURDIR)/$(PEER) \
		OTELCOL_ELECTOR_BINARY=$(CURDIR)/$(ELECTOR) VICTORIALOGS_BINARY=$(CURDIR)/$(VICTORIALOGS) \
		MONITORING_BINARY=$(CURDIR)/bin/tools/monitoring && \
	../tools/progress.sh "end-to-end tests" $(GO) test $(RACE) -v -parallel $(E2E_PARALLEL) -timeout 30m ./e2e/... ./harness/... ./schema/... && \
	../tools/progress.sh "no secret leaves the collector" $(GO) test $(RACE) -v -timeout 15m ./redaction/...

.PHONY: test-command
test-command: $(COMMAND) $(COLLECTOR) ## Run the tests of the command, also against a real control plane and the real collector
	@cd cmd/k8swatchlist && ../../tools/progress.sh "unit tests of the command" $(GO) test $(RACE) -timeout 10m ./...
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) K8SWATCHLIST_BINARY=$(CURDIR)/$(COMMAND) \
	../tools/progress.sh "end-to-end tests of the command" $(GO) test $(RACE) -v -timeout 10m ./command/...

.PHONY: command-docs
command-docs: $(COMMAND) $(COLLECTOR) ## Write the transcripts of docs/command.md again
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) K8SWATCHLIST_BINARY=$(CURDIR)/$(COMMAND) COMMAND_DOCS=write \
	$(GO) test -count 1 -timeout 10m -run TestTranscripts ./command

# A run of at least 90 seconds has every kind of fault at least once.
test-chaos: CHAOS_SEED = 11
.PHONY: test-chaos
test-chaos: $(COLLECTOR) ## Run chaos with one seed, in about three minutes
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) \
	CHAOS_SEED=$(CHAOS_SEED) CHAOS_SEEDS=1 CHAOS_DURATION=100s \
	../tools/progress.sh "a short chaos run" $(GO) test $(RACE) -v -count 1 -timeout 20m ./chaos/...

.PHONY: chaos
chaos: $(COLLECTOR) ## Break everything for CHAOS_DURATION with each of CHAOS_SEEDS seeds from CHAOS_SEED on, and check the promises
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) \
	CHAOS_SEED=$(CHAOS_SEED) CHAOS_SEEDS=$(CHAOS_SEEDS) CHAOS_DURATION=$(CHAOS_DURATION) \
	$(GO) test -v -count 1 -timeout 24h -run TestChaos ./chaos

.PHONY: chaos-replicas
chaos-replicas: $(COLLECTOR) ## Do the same with three replicas, of which one leads
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) \
	CHAOS_SEED=$(CHAOS_SEED) CHAOS_SEEDS=$(CHAOS_SEEDS) CHAOS_DURATION=$(CHAOS_DURATION) \
	$(GO) test -v -count 1 -timeout 24h -run TestChaosReplicas ./chaosreplicas

.PHONY: model
model: ## Run the model of the takeover between replicas (docs/takeover.md) with MODEL_SEEDS seeds
	@MODEL_SEEDS=$(MODEL_SEEDS) $(GO) test -v -count 1 -timeout 4h -run 'TestTakeover|TestDesignsCompared' ./internal/takeover/model

.PHONY: measure-resources
measure-resources: $(COLLECTOR) ## Measure how the collector reads everything of a cluster with 200 CRDs
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) MEASURE_RESOURCES=1 \
	../tools/progress.sh "measuring many resources" $(GO) test -v -count 1 -timeout 30m -run MeasureManyResources ./e2e

# Its alerts shows which alerts fire over the metrics of a run.
bin/tools/monitoring: $(MONITORING_SOURCES)
	@mkdir -p bin/tools
	@cd tools/monitoring && ../progress.sh -q "building what evaluates the alerting rules" $(GO) build -v -o ../../$@ .
	@touch $@

.PHONY: monitoring
monitoring: ## Write the alerting rules and the dashboard in deploy
	@cd tools/monitoring && $(GO) run . write ../..

.PHONY: monitoring-pages
monitoring-pages: $(COLLECTOR) ## Keep the metrics of a real run, with which the dashboard is tested
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) E2E_METRICS_PAGES=$(CURDIR)/tools/monitoring/testdata \
	../tools/progress.sh "a run with every metric" $(GO) test -count 1 -timeout 10m -run '^TestEveryMetric$$' ./e2e

.PHONY: records
records: $(COLLECTOR) ## Print a real record of every kind, as OTLP JSON
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	export KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) RECORDS_FILE=$(CURDIR)/bin/records.txt && \
	../tools/progress.sh "making records" $(GO) test -count 1 -timeout 30m -run '^TestEveryKindOfRecord$$' ./e2e >&2 && cat $$RECORDS_FILE

.PHONY: measure-memory
measure-memory: $(COLLECTOR) ## Measure the collector's memory while it reads 20,000 pods of 8 KB, three times
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) MEASURE_MEMORY=1 \
	../tools/progress.sh "measuring memory" $(GO) test -v -count 1 -timeout 30m -run MeasureMemory ./e2e

.PHONY: measure-shards
measure-shards: $(COLLECTOR) ## Measure what 1, 2 and 4 shards of 20,000 pods cost the collectors and kube-apiserver, with and without its feature gate
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) MEASURE_SHARDS=1 \
	../tools/progress.sh "measuring shards" $(GO) test -v -count 1 -timeout 60m -run MeasureShards ./e2e

.PHONY: measure-standby
measure-standby: $(COLLECTOR) ## Measure what a standby costs beside a leader, with 20,000 pods and 5,000 changes
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) MEASURE_STANDBY=1 \
	../tools/progress.sh "measuring a standby" $(GO) test -v -count 1 -timeout 30m -run MeasureStandby ./e2e

.PHONY: measure-noop
measure-noop: $(COLLECTOR) ## Measure how many records 50 nodes make whose heartbeats and Leases come every 10 seconds, for two minutes
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd test && \
	KUBEBUILDER_ASSETS=$$folder OTELCOL_BINARY=$(CURDIR)/$(COLLECTOR) NOOP_PAUSE=10s \
	../tools/progress.sh "measuring signs of life" $(GO) test -v -count 1 -timeout 30m -run '^TestSignsOfLifeAreNotEmitted$$' ./e2e

.PHONY: measure-diffs
measure-diffs: ## Measure the memory and time that the option diff takes for each object
	@cd bench && $(GO) run ./cmd/diffs

.PHONY: capacity
capacity: ## Print what NODES, PODS, CLUSTERS and CHANGES cost, computed from docs/performance-figures.md and docs/gateway-figures.md
	@cd bench && $(GO) run ./cmd/capacity $(FIGURES) \
		-nodes $(NODES) -pods $(PODS) -clusters $(CLUSTERS) -changes $(CHANGES) $(CAPACITY_FLAGS)

.PHONY: capacity-docs
capacity-docs: ## Write the tables of docs/scale.md again, after make bench or make measure-gateway has written other figures
	@cd bench && $(GO) run ./cmd/capacity $(FIGURES) -write ../docs/scale.md

.PHONY: measure-first-run
measure-first-run: ## Measure how long make run takes in a fresh clone with empty caches, up to an hour
	@folder=$$($(GET_CONTROL_PLANE)) || exit; cd tools/checks && KUBEBUILDER_ASSETS=$$folder MEASURE_FIRST_RUN=1 \
	$(GO) test -v -count 1 -timeout 2h ./firstrun/

# The peer has its own configuration, so that its old modules do not affect ours.
$(PEER): bench/peer-builder.yaml bin/tools/builder
	@$(PROGRESS) "building the collector with contrib's receivers" bin/tools/builder --config bench/peer-builder.yaml
	@cp bin/otelcol-peer-build/otelcol-peer $@.new && mv $@.new $@

$(ELECTOR): $(SOURCES) go.mod go.sum test/elector-builder.yaml bin/tools/builder
	@$(PROGRESS) "building the collector with the extension k8s_leader_elector" bin/tools/builder --config test/elector-builder.yaml
	@cp bin/otelcol-elector-build/otelcol-elector $@.new && mv $@.new $@

bin/bench/bench: $(BENCH_SOURCES) $(SOURCES)
	@mkdir -p bin/bench
	@cd bench && ../tools/progress.sh -q "building what measures" $(GO) build -v -o ../bin/bench/ ./cmd/...
	@touch $@

.PHONY: bench
bench: $(COLLECTOR) $(PEER) bin/bench/bench ## Measure the receiver and its peers, and write docs/performance-figures.md and docs/img
	@folder=$$($(GET_CONTROL_PLANE)) || exit; bin/bench/bench -control-plane "$$folder" -docs docs $(BENCH_FLAGS)

.PHONY: measure-telemetry
measure-telemetry: $(COLLECTOR) bin/bench/bench ## Measure what the collector's own metrics cost a live change, in 12 runs
	@bin/bench/bench -server replay -only telemetry -runs 12 -json bin/bench/telemetry.json $(BENCH_FLAGS)

.PHONY: measure-gateway
measure-gateway: $(COLLECTOR) $(PEER) bin/bench/bench ## Measure what compression and a gateway cost, and write docs/gateway-figures.md
	@bin/bench/bench -server replay -only gateway -docs docs -json bin/bench/gateway.json $(BENCH_FLAGS)

.PHONY: lint
lint: $(addprefix bin/tools/,golangci-lint misspell shfmt actionlint mdatagen) ## Check Go code, scripts, workflows, spelling, and that generated files are fresh
	@echo "gofmt ..."
	@unformatted=$$(gofmt -l $$(find . \( -path ./.git -o -path ./bin \) -prune -o -name '*.go' -print)) || exit; \
	[ -z "$$unformatted" ] || { echo "not formatted: $$unformatted"; exit 1; }
	@failed=; for module in $(MODULES); do \
		(cd $$module && "$(CURDIR)/$(PROGRESS)" "golangci-lint $$module" "$(CURDIR)/bin/tools/golangci-lint" run ./...) || failed=1; \
	done; [ -z "$$failed" ]
	@echo "scripts ..."
	@for script in $(wildcard tools/*.sh); do sh -n $$script || exit; done
	@bin/tools/shfmt -d $(SCRIPTS)
	@if command -v shellcheck >/dev/null; then shellcheck $(SCRIPTS); fi
	@echo "workflows ..."
	@bin/tools/actionlint .github/workflows/*.yaml
	@for module in $(PINS) $(MODULES:.=); do \
		grep -q "\"/$$module\"" .github/dependabot.yml || { echo ".github/dependabot.yml does not name the module in /$$module"; exit 1; }; \
	done
	@echo "spelling ..."
	@bin/tools/misspell -error Makefile $(SCRIPTS) $$(find . \( -path ./.git -o -path ./bin \) -prune -o \( -name '*.md' -o -name '*.yaml' -o -name '*.txtar' \) -print)
	@echo "generated files ..."
	@tools/generate.sh bin/tools/mdatagen check
	@echo "lint passed"

.PHONY: tidy-check
tidy-check: ## Check that every go.mod and go.sum is tidy
	@for module in $(PINS) $(MODULES); do \
		echo "go mod tidy in $$module ..."; (cd $$module && $(GO) mod tidy -diff) || exit; \
	done

.PHONY: generate
generate: bin/tools/mdatagen schema ## Generate code and documentation from metadata.yaml, and config.schema.json
	@tools/generate.sh bin/tools/mdatagen

.PHONY: schema
schema: ## Write config.schema.json, from the configuration and its comments
	@CONFIG_SCHEMA=write $(GO) test -count 1 -run TestSchemaIsThatOfTheConfig .

.PHONY: clean
clean: ## Remove everything that was built
	@rm -rf bin

# The tools are pinned by tools/go.mod and tools/linters/go.mod, and built by package path.
bin/tools/actionlint:    TOOL := github.com/rhysd/actionlint/cmd/actionlint
bin/tools/builder:       TOOL := go.opentelemetry.io/collector/cmd/builder
bin/tools/mdatagen:      TOOL := go.opentelemetry.io/collector/cmd/mdatagen
bin/tools/golangci-lint: TOOL := github.com/golangci/golangci-lint/v2/cmd/golangci-lint
bin/tools/misspell:      TOOL := github.com/golangci/misspell/cmd/misspell
bin/tools/shfmt:         TOOL := mvdan.cc/sh/v3/cmd/shfmt

bin/tools/actionlint bin/tools/builder bin/tools/mdatagen: tools/go.mod tools/go.sum
	@cd tools && ./progress.sh -q "building $(notdir $@)" $(GO) build -v -o ../$@ $(TOOL)
	@touch $@

bin/tools/golangci-lint bin/tools/misspell bin/tools/shfmt: tools/linters/go.mod tools/linters/go.sum
	@cd tools/linters && ../progress.sh -q "building $(notdir $@)" $(GO) build -v -o ../../$@ $(TOOL)
	@touch $@

# Without cgo, so that no C compiler is needed.
$(VICTORIALOGS): tools/victorialogs/go.mod tools/victorialogs/go.sum
	@cd tools/victorialogs && CGO_ENABLED=0 ../progress.sh -q "building VictoriaLogs" \
		$(GO) build -v -o ../../$@ github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs
	@touch $@

# Almost half an hour the first time on two cores, so no test needs them.
bin/story/kube-controller-manager bin/story/kube-scheduler: tools/kubernetes/go.mod tools/kubernetes/go.sum tools/build-program.sh
	@tools/build-program.sh $(K8S_VERSION) kubernetes k8s.io/kubernetes/cmd/$(notdir $@) $@
	@touch $@

bin/story/kwok: tools/kwok/go.mod tools/kwok/go.sum tools/build-program.sh
	@tools/build-program.sh $(K8S_VERSION) kwok sigs.k8s.io/kwok/cmd/kwok $@
	@touch $@

bin/tools/story: $(RUN_SOURCES) tools/controlplane/controllers/stages.yaml tools/controlplane/go.mod tools/controlplane/go.sum
	@cd tools/controlplane && ../progress.sh -q "building the program of make story" $(GO) build -v -o ../../$@ ./cmd/story
	@touch $@

bin/tools/run: $(RUN_SOURCES) tools/controlplane/go.mod tools/controlplane/go.sum
	@cd tools/controlplane && ../progress.sh -q "building the program of make run" $(GO) build -v -o ../../$@ ./cmd/run
	@touch $@
