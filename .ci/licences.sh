#!/usr/bin/env bash
# Every module that the program or its tests depend on must have a permissive licence.
source "$(dirname "$0")/lib.sh"

permissive='Apache License|MIT License|Permission is hereby granted, free of charge|Redistribution and use in source and binary forms|Permission to use, copy, modify, and(/or)? distribute'
copyleft='GNU (LESSER |AFFERO )?GENERAL PUBLIC LICENSE|Mozilla Public License|Server Side Public License|Business Source License'

# dependencies prints "path version folder" for each dependency of a module.
dependencies() {
	"$GO" -C "$1" list -deps -test \
		-f '{{with .Module}}{{if and (not .Main) (ne .Path "headgate")}}{{.Path}} {{.Version}} {{.Dir}}{{end}}{{end}}' ./... |
		sort -u
}

bad=0
count=0
for module in . e2e; do
	[[ -f $module/go.mod ]] || continue
	list="$(dependencies "$module")" || die "go list failed in $module"
	while read -r path version dir; do
		[[ -n $path ]] || continue
		count=$((count + 1))
		text="$(find "$dir" -maxdepth 1 -type f \( -iname 'licen[sc]e*' -o -iname 'copying*' \) -exec cat {} + | tr -s '[:space:]' ' ')"
		if ! grep -qiE "$permissive" <<<"$text"; then
			say "$path $version: no permissive licence found in its files"
			bad=1
		elif grep -qiE "^ ?($copyleft)" <<<"$text"; then
			say "$path $version: its licence is not permissive"
			bad=1
		fi
	done <<<"$list"
done
[[ $bad -eq 0 ]] || die "use something else, or explain in licences.sh why it is acceptable"
say "$count modules, all permissive"
