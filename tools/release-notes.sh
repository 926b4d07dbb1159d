#!/bin/sh
# Prints the release notes of a tag, as Markdown: its section of the module's CHANGELOG.md, and the commits since the
# last release of the same module. Rejects a module that others cannot use: one whose go.mod replaces modules.
#
#	release-notes.sh TAG        for example v0.1.0, or cmd/name/v0.1.0 for the module in cmd/name
set -eu

tag=$1
version=${tag##*/}
prefix=${tag%"$version"} # "" for the root, else the module's folder and a slash

content() { git show "$tag:$prefix$1" 2>/dev/null; }

if ! content go.mod >/dev/null; then
	echo "cannot release $tag: there is no ${prefix}go.mod" >&2
	exit 1
fi
if content go.mod | grep -Eq '^replace([[:space:]]|\()'; then
	echo "cannot release $tag: ${prefix}go.mod has replace directives, which do not count for those who require it" >&2
	exit 1
fi

section=$(content CHANGELOG.md | awk -v version="${version#v}" '
	/^## / {
		heading = $2
		gsub(/[][]/, "", heading)
		printing = heading == version
		next
	}
	printing' | sed -e '/./,$!d')
if [ -z "$section" ]; then
	echo "cannot release $tag: ${prefix}CHANGELOG.md has nothing under a heading \"## ${version#v}\"" >&2
	exit 1
fi
printf '%s\n' "$section"

# The newest version before this one, of the same module. A pre-release comes before its release.
previous=$(git -c versionsort.suffix=- tag --list "${prefix}v[0-9]*" --merged "$tag" --sort=-version:refname |
	awk -v tag="$tag" 'found { print; exit } $0 == tag { found = 1 }')

# The files of the module: those below its folder, except other modules inside it.
set -- "${prefix:-.}"
for inner in $(git ls-tree -r --name-only "$tag" -- "${prefix:-.}" | sed -n 's|/go\.mod$||p'); do
	[ "$inner/" = "$prefix" ] || set -- "$@" ":(exclude)$inner"
done
commits=$(git log --no-merges --format='- %s (%h)' "${previous:+$previous..}$tag" -- "$@")
if [ -n "$previous" ] && [ -n "$commits" ]; then
	printf '\n## Commits since %s\n\n%s\n' "$previous" "$commits"
fi
