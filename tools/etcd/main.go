// Command etcd is the etcd server, built from its released module and pinned by go.sum,
// so that the control plane needs nothing that the Go module proxy does not serve.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
