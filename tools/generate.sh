#!/bin/sh
# Generates code and documentation from metadata.yaml with mdatagen, in the root of the repository.
#
#	generate.sh MDATAGEN           writes it to the tree
#	generate.sh MDATAGEN check     fails if the tree differs from it, and changes nothing
set -eu

mdatagen=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
check=${2:-}

# mdatagen derives the name of the package from the name of the folder, but a clone may have any name. So it works in a
# copy.
mkdir -p bin
work=$(mktemp -d bin/generate.XXXXXX)
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP
copy=$work/k8swatchlistreceiver
mkdir "$copy"
cp go.mod go.sum metadata.yaml "$copy"
for file in *.go README.md; do # README.md: it fills in the text between its markers
	case $file in
	generated_*) ;;
	*) [ ! -f "$file" ] || cp "$file" "$copy" ;;
	esac
done
(cd "$copy" && "$mdatagen" metadata.yaml)

stale=
for made in "$copy"/generated_* "$copy/documentation.md" "$copy/README.md" "$copy"/internal/*; do
	[ -e "$made" ] || continue
	name=${made#"$copy"/}
	if [ -n "$check" ]; then
		diff -ru "$name" "$made" >&2 || stale=1
	elif ! diff -r "$name" "$made" >/dev/null 2>&1; then
		mkdir -p "$(dirname "$name")"
		cp -R "$made" "$(dirname "$name")"
	fi
done
for file in generated_*; do
	[ ! -f "$file" ] || [ -f "$copy/$file" ] || {
		echo "$file is not generated any more: remove it" >&2
		stale=1
	}
done
if [ -n "$stale" ]; then
	[ -z "$check" ] || echo "generated files do not fit metadata.yaml: run make generate" >&2
	exit 1
fi
