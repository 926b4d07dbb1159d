#!/bin/sh
# Builds a program that a module in this folder pins, without cgo, so that no C compiler is needed.
#
#	build-program.sh VERSION MODULE PACKAGE FILE    VERSION is that of Kubernetes, which gets it from the linker
set -eu

version=$1
module=$2
package=$3
case $4 in
/*) file=$4 ;;
*) file=$PWD/$4 ;;
esac
tools=$(cd "$(dirname "$0")" && pwd)

# Without it the API server does not know its own version.
major=$(echo "$version" | sed 's/^v\([0-9]*\)\..*$/\1/')
minor=$(echo "$version" | sed 's/^v[0-9]*\.\([0-9]*\)\..*$/\1/')
linker="-s -w"
for holder in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	linker="$linker -X $holder.gitVersion=$version -X $holder.gitMajor=$major -X $holder.gitMinor=$minor"
	linker="$linker -X $holder.gitCommit= -X $holder.gitTreeState=archive"
done

cd "$tools/$module"
CGO_ENABLED=0 "$tools/progress.sh" -q "building $(basename "$file")" \
	go build -v -trimpath -ldflags "$linker" -o "$file" "$package"
