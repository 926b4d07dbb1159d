package k8swatchlistreceiver

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/catalog"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/shard"
)

// ShardConfig makes the receiver read one of several parts of the objects; other receivers read the others. The parts are those of
// the API server's parameter shardSelector.
type ShardConfig struct {
	// Total is how many shards there are, the same in all receivers. 1 means that nothing is divided. Default: 1.
	Total int `mapstructure:"total"`

	// Index is the shard to read, from 0 to total-1, or auto: the number after the last dash of the environment variable POD_NAME,
	// as the pods of a StatefulSet have it. Required if total is above 1.
	Index any `mapstructure:"index"`

	// By is what decides to which shard an object belongs: its uid, which divides evenly, or its namespace, which keeps the objects
	// of a namespace together. Default: uid.
	By string `mapstructure:"by"`

	// Server is whether API servers that can are asked to send only the objects of the shard: auto, or off. Default: auto.
	Server string `mapstructure:"server"`

	// prevent unkeyed literal initialization
	_ struct{}
}

// Values of shard.index, shard.by and shard.server.
const (
	shardIndexAuto  = "auto"
	shardServerAuto = "auto"
	shardServerOff  = "off"
)

// maxShards is far more than is of use, and shows typing errors.
const maxShards = 1024

// podNameVariable is the environment variable from which shard.index: auto takes the index.
const podNameVariable = "POD_NAME"

func defaultShard() ShardConfig {
	return ShardConfig{Total: 1, By: shard.UID.String(), Server: shardServerAuto}
}

func (s *ShardConfig) validate() []error {
	var errs []error
	if s.Total < 1 || s.Total > maxShards {
		errs = append(errs, fmt.Errorf("total: %d is not from 1 to %d; 1 means that nothing is divided", s.Total, maxShards))
	} else if _, err := s.index(); err != nil {
		errs = append(errs, fmt.Errorf("index: %w", err))
	}
	if s.By != shard.UID.String() && s.By != shard.Namespace.String() {
		errs = append(errs, fmt.Errorf("by: %q is not one of uid, namespace", s.By))
	}
	if s.Server != shardServerAuto && s.Server != shardServerOff {
		errs = append(errs, fmt.Errorf("server: %q is not one of auto, off", s.Server))
	}
	return errs
}

// index returns the configured index, or the one of the pod.
func (s *ShardConfig) index() (int, error) {
	var index int
	switch value := s.Index.(type) {
	case nil:
		if s.Total > 1 {
			return 0, fmt.Errorf("is missing; write a number from 0 to %d that no other receiver has, or auto in the pods of a StatefulSet", s.Total-1)
		}
		return 0, nil
	case int:
		index = value
	case string:
		if value == shardIndexAuto {
			if s.Total == 1 {
				return 0, nil
			}
			return s.indexOfPod()
		}
		number, err := strconv.Atoi(value)
		if err != nil {
			return 0, fmt.Errorf("%q is neither a number nor auto", value)
		}
		index = number
	default:
		return 0, fmt.Errorf("%v is neither a number nor auto", value)
	}
	if index < 0 || index >= s.Total {
		return 0, fmt.Errorf("%d is not from 0 to %d, with shard.total %d", index, s.Total-1, s.Total)
	}
	return index, nil
}

// indexOfPod returns the number after the last dash of the pod's name.
func (s *ShardConfig) indexOfPod() (int, error) {
	name := os.Getenv(podNameVariable)
	if name == "" {
		return 0, errors.New("auto needs the environment variable POD_NAME with the name of the pod (valueFrom: {fieldRef: {fieldPath: metadata.name}})")
	}
	digits := name[strings.LastIndex(name, "-")+1:]
	index, err := strconv.ParseUint(digits, 10, 31)
	if err != nil || digits == name {
		return 0, fmt.Errorf("auto needs a name that ends in a dash and a number, as those of the pods of a StatefulSet; POD_NAME is %q", name)
	}
	if int(index) >= s.Total {
		return 0, fmt.Errorf("auto gives %d for POD_NAME %q, which is not from 0 to %d: make shard.total the number of pods", index, name, s.Total-1)
	}
	return int(index), nil
}

// shard returns the configured shard, which is valid.
func (s *ShardConfig) shard() shard.Shard {
	index, err := s.index()
	if err != nil || s.Total <= 1 {
		return shard.Shard{}
	}
	of := shard.Shard{Index: index, Total: s.Total}
	if s.By == shard.Namespace.String() {
		of.By = shard.Namespace
	}
	return of
}

// ShardText describes the configured shard to people, "2 of 4". It is "" if nothing is divided.
func (c *Config) ShardText() string { return c.Shard.shard().String() }

// withShard limits what is read to the configured shard.
func (c *Config) withShard(specs []catalog.Spec) []catalog.Spec {
	of := c.Shard.shard()
	for i := range specs {
		specs[i].Shard = of
	}
	return specs
}
