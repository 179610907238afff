#!/usr/bin/env bash
# The gate's decision on its own, an evaluation of all built-in rules for ten pools
# over a week of samples, what a drill's twin at full load costs production, reading
# a history of 100,000 runs, then the whole proxy beside others. Ratios within one
# run mean something; numbers from different machines do not.
source "$(dirname "$0")/lib.sh"

.ci/tools.sh --try haproxy
"$GO" test -run '^$' -bench . -benchmem ./proxy/admission
"$GO" test -run '^$' -bench Evaluation -timeout 30m ./engine/rules
"$GO" test -run '^$' -bench TwinBeside -benchtime 1x -timeout 30m ./internal/app
"$GO" test -run '^$' -bench BenchmarkRuns ./internal/sqlite
if compgen -G 'e2e/bench/*_test.go' >/dev/null; then
	"$GO" -C e2e test -run '^$' -bench . -benchmem -timeout 1h ./bench/...
else
	say "the proxy was not measured: there is no e2e/bench"
fi
