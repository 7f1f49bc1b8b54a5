# Tools are pinned in tools/go.mod and built by the go command itself.
TOOL := go tool -modfile=tools/go.mod
RACE := ./natslog/... ./natsembed/... ./natsmicro/... ./internal/... ./boltstore/... ./bleveindex/... ./llm/...

.PHONY: all build check test race fuzz sim soak surfaces bench clean

all: check test

build:
	go build -o bin/ ./cmd/...

# vet, format, static checks, import direction, tidy module files.
check:
	go vet ./...
	@out=$$($(TOOL) gofumpt -l .); test -z "$$out" || { echo "gofumpt: $$out"; exit 1; }
	$(TOOL) staticcheck ./...
	go test -count=1 -run 'TestImports|TestPure' .
	go mod tidy -diff

test:
	go test -timeout 20m ./...

# The packages that start goroutines, under the race detector.
race:
	go test -race -short $(RACE)

# Every fuzz target for a few seconds.
FUZZTIME ?= 5s
fuzz:
	@for p in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$p | grep '^Fuzz'); do \
			echo "$$p $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$p || exit 1; \
		done; \
	done

# What condensing costs and keeps: the planner over synthetic and real turn sizes. A
# context over B anywhere fails it. SIM_TURNS=1000000 takes about an hour.
SIM_TURNS ?= 20000
sim:
	cd condense && SIM_TURNS=$(SIM_TURNS) go test -run '^TestSim$$' -count=1 -timeout 6h

# A million steps of the engine's state machine. A failure prints its seed.
STEPS ?= 1000000
soak:
	LCM_STEPS=$(STEPS) go test ./internal/engine -run '^TestEngine$$' -count=1 -v -timeout 12h
	LCM_SOAK=1 go test ./cmd/lcm -run '^TestKillUnderLoad$$' -count=1 -v -timeout 12h
	LCM_SOAK=1 go test ./cmd/lcm -run '^TestMap(SurvivesKills|WorkersAreKilled|Speed)$$' -count=1 -v -timeout 12h
	LCM_SOAK=1 go test ./cmd/lcm -run '^TestDamage$$' -count=1 -v -timeout 12h

# The providers' own SDKs, and clients of the Model Context Protocol from npm.
surfaces:
	cd integrations/sdktest && go test -mod=mod ./... # follows what the main module needs
	LCM_NPM=1 go test ./cmd/lcm -run '^TestClientsFromNPM$$' -count=1 -v

bench:
	go test -run '^$$' -bench . -benchtime 1s ./...

clean:
	rm -rf bin
