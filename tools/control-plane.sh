#!/bin/sh
# Builds etcd, kube-apiserver and kubectl from their released modules, and prints the folder that
# holds them as the last line of stdout. Does nothing when the folder is up to date, and nothing at
# all when KUBEBUILDER_ASSETS names a folder of binaries that the user has already.
#
#	control-plane.sh VERSION FOLDER        for example v1.37.2 bin/k8s/v1.37.2
set -eu

version=$1
folder=$2
tools=$(cd "$(dirname "$0")" && pwd)

if [ -n "${KUBEBUILDER_ASSETS:-}" ]; then
	for binary in etcd kube-apiserver; do
		if [ ! -x "$KUBEBUILDER_ASSETS/$binary" ]; then
			echo "KUBEBUILDER_ASSETS is set, but $KUBEBUILDER_ASSETS/$binary is not there: correct it or unset it" >&2
			exit 1
		fi
	done
	(cd "$KUBEBUILDER_ASSETS" && pwd)
	exit
fi

pinned=$(sed -n 's/^.*k8s\.io\/kubernetes \(v[0-9][^ ]*\).*$/\1/p' "$tools/kubernetes/go.mod")
if [ "$version" != "$pinned" ]; then
	echo "cannot build Kubernetes $version: tools/kubernetes/go.mod pins $pinned; put other binaries into a folder and set KUBEBUILDER_ASSETS to it" >&2
	exit 1
fi

# What the binaries are made from. A folder whose stamp says the same needs no work; it says so
# faster than "go build" could.
recipe=$(cat "$0" "$tools/kubernetes/go.mod" "$tools/kubernetes/go.sum" \
	"$tools/etcd/go.mod" "$tools/etcd/go.sum" "$tools/etcd/main.go" | cksum)
recipe="$version $(uname -sm) $recipe"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
if [ "$(cat "$folder/.recipe" 2>/dev/null)" = "$recipe" ] &&
	[ -x "$folder/etcd" ] && [ -x "$folder/kube-apiserver" ] && [ -x "$folder/kubectl" ]; then
	echo "$folder"
	exit
fi

# Kubernetes takes its version from the linker. Without it kubectl warns about a version skew and
# the API server cannot say which version's behaviour it has.
major=$(echo "$version" | sed 's/^v\([0-9]*\)\..*$/\1/')
minor=$(echo "$version" | sed 's/^v[0-9]*\.\([0-9]*\)\..*$/\1/')
linker="-s -w"
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
	linker="$linker -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
	linker="$linker -X $package.gitCommit= -X $package.gitTreeState=archive"
done

# Each binary is linked under another name and renamed, so that nothing half made is ever found.
work=$(mktemp -d "$folder/.building.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

build() { # module, package, name
	(cd "$tools/$1" && CGO_ENABLED=0 "$tools/progress.sh" -q "building $3" \
		go build -v -trimpath -ldflags "$linker" -o "$work/$3" "$2")
	mv "$work/$3" "$folder/$3"
}

echo "building the control plane, Kubernetes $version, into $folder: some minutes the first time" >&2
build etcd . etcd
build kubernetes k8s.io/kubernetes/cmd/kube-apiserver kube-apiserver
build kubernetes k8s.io/kubernetes/cmd/kubectl kubectl

echo "$recipe" >"$work/recipe"
mv "$work/recipe" "$folder/.recipe"
echo "$folder"
