package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/k8swatchlist/k8swatchlistreceiver/cmd/k8swatchlist/internal/collector"
	"github.com/k8swatchlist/k8swatchlistreceiver/internal/kubeclient"
)

// configFlags name a Collector configuration.
type configFlags struct {
	locations []string
	receivers []string
}

func (f *configFlags) add(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.locations, "config", nil, "configuration of the Collector, as in its own --config: path or URI, - for standard input; may be repeated")
	flags.StringSliceVar(&f.receivers, "receiver", nil, "id of a k8s_watchlist receiver (k8s_watchlist/two); by default all that pipelines use; may be repeated")
}

func (f *configFlags) load(ctx context.Context, s streams) ([]collector.Receiver, error) {
	if len(f.locations) == 0 {
		return nil, errors.New("--config is missing: name the configuration file of the Collector, or - for standard input")
	}
	return collector.Load(ctx, f.locations, s.in, f.receivers, warnings(s.err))
}

// warnings returns a logger whose warnings are lines of a terminal.
func warnings(w io.Writer) *zap.Logger {
	encoder := zapcore.NewConsoleEncoder(zapcore.EncoderConfig{
		MessageKey: "message", LevelKey: "level", ConsoleSeparator: " ",
		EncodeLevel: func(_ zapcore.Level, e zapcore.PrimitiveArrayEncoder) { e.AppendString("warning:") },
	})
	return zap.New(zapcore.NewCore(encoder, zapcore.AddSync(w), zapcore.WarnLevel))
}

// clusterFlags choose a cluster as kubectl does.
type clusterFlags struct {
	kubeconfig string
	context    string
}

func (f *clusterFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "", "path of the kubeconfig file; by default $KUBECONFIG, or else ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig; by default the current one")
}

func (f *clusterFlags) options() kubeclient.Options {
	return kubeclient.Options{
		AuthType: kubeclient.AuthKubeConfig, Kubeconfig: f.kubeconfig, Context: f.context,
		QPS: 50, Burst: 100, UserAgent: "k8swatchlist",
	}
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
