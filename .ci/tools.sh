#!/usr/bin/env bash
# Sees to it that the commands named as arguments are there: on Debian as root it
# installs what is missing, elsewhere it names what is missing and fails.
# With --try in front, what cannot be had is named and nothing fails.
source "$(dirname "$0")/lib.sh"

# package names the Debian package that brings a command.
package() {
	case "$1" in
	node) echo nodejs ;;
	cc) echo gcc libc6-dev ;;
	promtool) echo prometheus ;;
	*) echo "$1" ;;
	esac
}

# install runs apt-get without starting the services that packages bring along.
install() {
	local policy=/usr/sbin/policy-rc.d
	if [[ ! -e $policy ]]; then
		trap 'rm -f /usr/sbin/policy-rc.d' EXIT
		printf '#!/bin/sh\nexit 101\n' >"$policy"
		chmod +x "$policy"
	fi
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -qq </dev/null
	apt-get install -y -qq --no-install-recommends "$@" </dev/null >/dev/null
}

end=die
if [[ ${1:-} == --try ]]; then
	end=say
	shift
fi

missing=()
packages=()
for command in "$@"; do
	has "$command" && continue
	missing+=("$command")
	read -r -a names <<<"$(package "$command")"
	packages+=("${names[@]}")
done
[[ ${#missing[@]} -gt 0 ]] || exit 0

if [[ ! -e /etc/debian_version || $(id -u) -ne 0 ]]; then
	"$end" "not installed: ${missing[*]} (Debian packages: ${packages[*]})"
	exit 0
fi
say "installing ${packages[*]}"
install "${packages[@]}" || "$end" "apt-get could not install ${packages[*]}"
