#!/bin/sh
# Prints the folder of etcd and kube-apiserver as the last line of stdout. If necessary it first gets the two:
# ready-made with setup-envtest if its index can be read, otherwise built from their released modules.
#
#	control-plane.sh VERSION FOLDER        for example v1.37.2 bin/k8s/v1.37.2
#
# Environment:
#	KUBEBUILDER_ASSETS            a folder of binaries to use as they are; overrides everything else
#	CONTROL_PLANE                 build: never use ready-made ones. Not set: use them if available
#	ENVTEST_INDEX                 URL of the index of ready-made binaries; not set: the one of Kubernetes' controller-tools
#	ENVTEST_TIMEOUT               seconds that the index may take to answer
#	ENVTEST_DOWNLOAD_TIMEOUT      seconds that the download may take
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

case ${CONTROL_PLANE:-} in
build | "") ;;
*)
	echo "cannot use CONTROL_PLANE=$CONTROL_PLANE: set it to build, or unset it" >&2
	exit 1
	;;
esac

# The stamp in the folder identifies its binaries. For built ones it names all their inputs, which shows faster than "go
# build" whether they are up to date.
ready="ready-made $version $(uname -sm)"
built="built $version $(uname -sm) $(cat "$0" "$tools/build-program.sh" "$tools/kubernetes/go.mod" "$tools/kubernetes/go.sum" \
	"$tools/etcd/go.mod" "$tools/etcd/go.sum" "$tools/etcd/main.go" | cksum)"

mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
stamp=$(cat "$folder/.stamp" 2>/dev/null) || stamp=
if [ -x "$folder/etcd" ] && [ -x "$folder/kube-apiserver" ]; then
	if [ "$stamp" = "$built" ] || { [ "$stamp" = "$ready" ] && [ "${CONTROL_PLANE:-}" != build ]; }; then
		echo "$folder"
		exit
	fi
fi

# Everything is created here and then renamed, so that nothing incomplete is ever found.
work=$(mktemp -d "$folder/.work.XXXXXX")
# setup-envtest makes its folders read-only.
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

take() { # stamp, folder of the new binaries
	rm -f "$folder/.stamp"
	for binary in etcd kube-apiserver; do
		mv -f "$2/$binary" "$folder/$binary"
	done
	echo "$1" >"$work/stamp"
	mv "$work/stamp" "$folder/.stamp"
	echo "$folder"
}

envtest() { # seconds, command and arguments of setup-envtest
	seconds=$1
	shift
	TMPDIR=$work "$tools/limit.sh" "$seconds" "$work/setup-envtest" "$@" --bin-dir "$work/envtest" \
		${ENVTEST_INDEX:+--index "$ENVTEST_INDEX"}
}

# Puts ready-made binaries of exactly this version into $work/ready, or prints why it cannot.
download() {
	refuse() {
		echo "no ready-made binaries of Kubernetes $version: $*" >&2
		return 1
	}
	(cd "$tools" && ./progress.sh -q "building setup-envtest" \
		go build -v -o "$work/setup-envtest" sigs.k8s.io/controller-runtime/tools/setup-envtest) ||
		{ refuse "cannot build setup-envtest" || return; }
	envtest "${ENVTEST_TIMEOUT:-10}" list "${version#v}" >"$work/listed" ||
		{ refuse "cannot read the index" || return; }
	[ -s "$work/listed" ] || { refuse "the index has none for this platform" || return; }
	echo "downloading Kubernetes $version ..." >&2
	envtest "${ENVTEST_DOWNLOAD_TIMEOUT:-300}" use "${version#v}" --print path >"$work/path" ||
		{ refuse "cannot download them" || return; }
	mkdir "$work/ready"
	chmod -R u+w "$work/envtest"
	for binary in etcd kube-apiserver; do
		mv "$(cat "$work/path")/$binary" "$work/ready" || { refuse "they have no $binary" || return; }
	done
	# This also finds binaries that do not run here.
	if ! reported=$("$work/ready/kube-apiserver" --version) || [ "$reported" != "Kubernetes $version" ] ||
		! "$work/ready/etcd" --version >/dev/null; then
		refuse "they do not run here, or are of another version: ${reported:-no answer}"
	fi
}

if [ "${CONTROL_PLANE:-}" != build ] && download; then
	take "$ready" "$work/ready"
	exit
fi

pinned=$(sed -n 's/^.*k8s\.io\/kubernetes \(v[0-9][^ ]*\).*$/\1/p' "$tools/kubernetes/go.mod")
if [ "$version" != "$pinned" ]; then
	echo "cannot build Kubernetes $version: tools/kubernetes/go.mod pins $pinned; put other binaries into a folder and set KUBEBUILDER_ASSETS to it" >&2
	exit 1
fi

echo "building Kubernetes $version and etcd into $folder: about half an hour the first time on two cores" >&2
"$tools/build-program.sh" "$version" etcd . "$work/etcd"
"$tools/build-program.sh" "$version" kubernetes k8s.io/kubernetes/cmd/kube-apiserver "$work/kube-apiserver"
take "$built" "$work"
