#!/usr/bin/env bash
# Everything that CI checks. All steps run even after one has failed, so that one run
# reports everything. The summary at the end has the result and the time of each step.
source "$(dirname "$0")/lib.sh"

work="$(mktemp -d)"
: >"$work/summary" >"$work/failed"
lane=
trap '[[ -z $lane ]] || kill -- "-$lane" 2>/dev/null || true; rm -rf "$work"' EXIT

# step runs a command under a heading.
step() {
	local name="$1" start="$SECONDS" code=0
	shift
	printf '\n== %s\n' "$name"
	"$@" </dev/null 2>&1 || code=$?
	report "$name" "$code" "$((SECONDS - start))"
}

# report prints the result of a step and adds it to the summary. Exit code 77 means that the
# step cannot run here, for a reason outside the code.
report() {
	local name="$1" code="$2" seconds="$3" result=ok
	case "$code" in
	0) ;;
	77) result=SKIPPED ;;
	*)
		result=FAILED
		printf '%s; ' "$name" >>"$work/failed"
		;;
	esac
	printf '%-7s %4d s  %s\n' "$result" "$seconds" "$name" >>"$work/summary"
	printf -- '-- %s: %s after %d s\n' "$name" "$result" "$seconds"
}

# checks are the steps that run beside the tests, at the lowest priority. The tests often wait
# for real time; these use what they leave of the processors. Their output follows that of the
# tests.
checks() {
	step 'architecture' "$GO" test -count=1 ./internal/archtest
	step 'lines' .ci/lines.sh
	step 'licences' .ci/licences.sh
	step 'lint' .ci/lint.sh
	step 'vulnerabilities' .ci/vuln.sh
	step 'fuzzing' .ci/fuzz.sh
	step 'benchmarks, once each' .ci/bench.sh --once
}

race() {
	# The slowest package starts first, so that it is not left for the end; architecture is a step of
	# its own. Tests also wait for real time, so more packages run at once than there are cores.
	local slow=headgate/internal/app packages
	packages="$("$GO" list ./... | grep -vxF -e headgate/internal/archtest -e "$slow")"
	# shellcheck disable=SC2086 # both are lists
	HEADGATE_TEST_SLOWDOWN="${HEADGATE_TEST_SLOWDOWN:-4}" "$GO" test $RACE -vet=off -p "${RACE_PARALLEL:-3}" -timeout 25m \
		"$slow" $packages
}

printf 'headgate %s, %s\n' "$(git describe --tags --always --dirty 2>/dev/null || echo unknown)" "$("$GO" version)"

step 'tools' .ci/tools.sh node npm cc promtool chromium
step 'modules' .ci/modules.sh
# Without -trimpath the other steps use what this one compiles.
step 'build' "${MAKE:-make}" build TRIMPATH=
set -m # a process group for the checks, so that they end with this script
(
	renice -n 19 "$BASHPID" >/dev/null
	checks
) >"$work/log" 2>&1 &
lane=$!
set +m
step 'tests with the race detector' race
step 'whole program' .ci/e2e.sh
start="$SECONDS" code=0
wait "$lane" || code=$?
lane=
cat "$work/log"
report 'all checks beside the tests have ended' "$code" "$((SECONDS - start))"

printf '\n== summary, %d s\n' "$SECONDS"
cat "$work/summary"
[[ ! -s $work/failed ]] || die "failed: $(cat "$work/failed")"
