#!/usr/bin/env bash
# Everything that CI checks. All steps run even after one has failed, so that one run
# reports everything. The summary at the end has the result and the time of each step.
source "$(dirname "$0")/lib.sh"

summary=()
failed=()

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
		failed+=("$name")
		;;
	esac
	summary+=("$(printf '%-7s %4d s  %s' "$result" "$seconds" "$name")")
	printf -- '-- %s: %s after %d s\n' "$name" "$result" "$seconds"
}

# background starts a step beside those that follow; join waits for it and prints what it
# printed. There is one at a time.
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
background() {
	background_name="$1"
	shift
	(
		start="$SECONDS" code=0
		"$@" </dev/null >"$work/log" 2>&1 || code=$?
		echo "$code $((SECONDS - start))" >"$work/result"
	) &
}
join() {
	local code seconds
	wait
	read -r code seconds <"$work/result"
	printf '\n== %s\n' "$background_name"
	cat "$work/log"
	report "$background_name" "$code" "$seconds"
}

race() {
	# archtest is a step of its own.
	"$GO" list ./... | grep -v '/internal/archtest$' |
		HEADGATE_TEST_SLOWDOWN="${HEADGATE_TEST_SLOWDOWN:-4}" xargs "$GO" test -race -shuffle=on -vet=off -timeout 25m
}

printf 'headgate %s, %s\n' "$(git describe --tags --always --dirty 2>/dev/null || echo unknown)" "$("$GO" version)"

step 'tools' .ci/tools.sh node npm cc promtool chromium
step 'modules' .ci/modules.sh
step 'lint' .ci/lint.sh
step 'vulnerabilities' .ci/vuln.sh
step 'licences' .ci/licences.sh
step 'build' "${MAKE:-make}" build
step 'architecture' "$GO" test -count=1 ./internal/archtest
step 'tests with the race detector' race
# The tests of the whole program often wait for real time. Fuzzing uses what they leave of
# the processors, at the lowest priority.
background 'fuzzing' nice -n 19 .ci/fuzz.sh
step 'whole program' .ci/e2e.sh
join
step 'benchmarks, once each' .ci/bench.sh --once
# These limits let everything pass; without them lines.sh has the limits to come to.
step 'lines' env LINES_CODE=60000 LINES_FILES=60 .ci/lines.sh

printf '\n== summary, %d s\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
[[ ${#failed[@]} -eq 0 ]] || die "failed: $(printf '%s; ' "${failed[@]}")"
