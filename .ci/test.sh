#!/usr/bin/env bash
# Everything that CI checks. All steps run even after one has failed, so that one
# run tells everything; the summary at the end has each step's time and result.
source "$(dirname "$0")/lib.sh"

summary=()
failed=()

# step runs a command under a heading. One that ends with 77 could not be carried
# out here, through no fault of the code; the summary says so.
step() {
	local name="$1" start="$SECONDS" result=ok code=0
	shift
	printf '\n== %s\n' "$name"
	"$@" </dev/null 2>&1 || code=$?
	case "$code" in
	0) ;;
	77) result=SKIPPED ;;
	*)
		result=FAILED
		failed+=("$name")
		;;
	esac
	summary+=("$(printf '%-7s %4d s  %s' "$result" "$((SECONDS - start))" "$name")")
	printf -- '-- %s: %s after %d s\n' "$name" "$result" "$((SECONDS - start))"
}

printf 'headgate %s, %s\n' "$(git describe --tags --always --dirty 2>/dev/null || echo unknown)" "$("$GO" version)"

step 'tools' .ci/tools.sh node npm cc promtool chromium
step 'modules' .ci/modules.sh
step 'lint' .ci/lint.sh
step 'vulnerabilities' .ci/vuln.sh
step 'licences' .ci/licences.sh
step 'build' "${MAKE:-make}" build
step 'architecture' "$GO" test -count=1 ./internal/archtest
step 'tests with the race detector' "$GO" test -race -shuffle=on -timeout 10m ./...
step 'fuzzing' .ci/fuzz.sh
step 'real clients' .ci/e2e.sh

printf '\n== summary, %d s\n' "$SECONDS"
printf '%s\n' "${summary[@]}"
[[ ${#failed[@]} -eq 0 ]] || die "failed: $(printf '%s; ' "${failed[@]}")"
