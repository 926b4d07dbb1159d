package kubeclient

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// kubeconfig is the content of kubeconfig files and the context to use.
type kubeconfig struct {
	raw   *clientcmdapi.Config
	rules *clientcmd.ClientConfigLoadingRules
	files string // for messages
	name  string // of the context
}

func kubeconfigRules(path string) *clientcmd.ClientConfigLoadingRules {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = expandHome(path)
	rules.MigrationRules = nil // they write files
	rules.WarnIfAllMissing = false
	return rules
}

// loadKubeconfig reads the files. context "" is the current context.
func loadKubeconfig(path, context string) (*kubeconfig, error) {
	rules := kubeconfigRules(path)
	raw, err := rules.Load()
	if err != nil {
		if IsFileList(path) && errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot load kubeconfig: %s is a list of files; leave kubeconfig out and set the environment variable $KUBECONFIG to it", path)
		}
		return nil, fmt.Errorf("cannot load kubeconfig: %w", err)
	}
	k := &kubeconfig{raw: raw, rules: rules, files: strings.Join(rules.GetLoadingPrecedence(), ", "), name: context}
	if clientcmdapi.IsConfigEmpty(raw) {
		return nil, fmt.Errorf("cannot load kubeconfig: found none in %s; set kubeconfig or $KUBECONFIG to its path", k.files)
	}
	if k.name == "" {
		k.name = raw.CurrentContext
	}
	return k, k.check()
}

// IsFileList reports whether the path is more than one, separated as in $KUBECONFIG.
func IsFileList(path string) bool {
	return len(filepath.SplitList(path)) > 1
}

// check returns an error if something that the context refers to is missing.
func (k *kubeconfig) check() error {
	contexts := names(k.raw.Contexts)
	if k.name == "" {
		return fmt.Errorf("context: kubeconfig %s has no current context; write one of: %s", k.files, contexts)
	}
	context := k.raw.Contexts[k.name]
	if context == nil {
		return fmt.Errorf("context: kubeconfig %s has no context %q; write one of: %s", k.files, k.name, contexts)
	}
	switch cluster := k.raw.Clusters[context.Cluster]; {
	case context.Cluster == "":
		return fmt.Errorf("context: context %q of kubeconfig %s names no cluster; the file has: %s", k.name, k.files, names(k.raw.Clusters))
	case cluster == nil:
		return fmt.Errorf("context: context %q of kubeconfig %s names the cluster %q, which does not exist; the file has: %s", k.name, k.files, context.Cluster, names(k.raw.Clusters))
	case cluster.Server == "":
		return fmt.Errorf("context: cluster %q in kubeconfig %s, which context %q names, has no server", context.Cluster, k.files, k.name)
	}
	if context.AuthInfo != "" && k.raw.AuthInfos[context.AuthInfo] == nil {
		return fmt.Errorf("context: context %q of kubeconfig %s names the user %q, which does not exist; the file has: %s", k.name, k.files, context.AuthInfo, names(k.raw.AuthInfos))
	}
	return nil
}

// names lists the keys for a message.
func names[V any](m map[string]V) string {
	if len(m) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(maps.Keys(m)), ", ")
}

func (k *kubeconfig) cluster() *clientcmdapi.Cluster {
	return k.raw.Clusters[k.raw.Contexts[k.name].Cluster]
}
func (k *kubeconfig) user() *clientcmdapi.AuthInfo {
	return k.raw.AuthInfos[k.raw.Contexts[k.name].AuthInfo]
}

func (k *kubeconfig) restConfig() (*rest.Config, error) {
	// Not the deferred loading config, which falls back to the pod's service account if the file names no cluster.
	overrides := &clientcmd.ConfigOverrides{CurrentContext: k.name}
	cfg, err := clientcmd.NewNonInteractiveClientConfig(*k.raw.DeepCopy(), k.name, overrides, k.rules).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("cannot use kubeconfig %s: %w", k.files, err)
	}
	return cfg, nil
}

// kubeconfigSource notices when kubeconfig files are rewritten, as k3s, Teleport and Rancher do to renew the
// credentials in them. It keeps using the context that it started with: a changed current context is meant for kubectl
// and must not move us to another cluster.
type kubeconfigSource struct {
	options  Options
	contents map[string]string // contents of the files when used was read
	used     *kubeconfig

	// The new state that changed has found, until it is accepted.
	seen  map[string]string
	found *kubeconfig

	lastError string // the last error that was new
}

func newKubeconfigSource(o Options) (*kubeconfigSource, *rest.Config, error) {
	s := &kubeconfigSource{options: o, contents: kubeconfigContents(o.Kubeconfig)}
	var err error
	if s.used, err = loadKubeconfig(o.Kubeconfig, o.Context); err != nil {
		return nil, nil, err
	}
	cfg, err := s.used.restConfig()
	if err != nil {
		return nil, nil, err
	}
	return s, o.applyTo(cfg), nil
}

// kubeconfigContents reads the files. Those that cannot be read are left out.
func kubeconfigContents(path string) map[string]string {
	contents := map[string]string{}
	for _, file := range kubeconfigRules(path).GetLoadingPrecedence() {
		if content, err := os.ReadFile(file); err == nil {
			contents[file] = string(content)
		}
	}
	return contents
}

// changed returns the config from the current files, or nil if it is unchanged. It keeps returning a new config until
// that is accepted, and an error as long as the files cannot be used.
func (s *kubeconfigSource) changed() (*rest.Config, error) {
	seen := kubeconfigContents(s.options.Kubeconfig)
	if maps.Equal(seen, s.contents) {
		return nil, nil
	}
	found, err := loadKubeconfig(s.options.Kubeconfig, s.used.name)
	if err != nil && s.options.Context == "" && found != nil && found.raw.Contexts[s.used.name] == nil {
		found, err = loadKubeconfig(s.options.Kubeconfig, "") // ours was renamed or replaced
	}
	if err != nil {
		return nil, err
	}
	s.seen, s.found = seen, found
	if reflect.DeepEqual(found.cluster(), s.used.cluster()) && reflect.DeepEqual(found.user(), s.used.user()) {
		s.accept()
		return nil, nil
	}
	cfg, err := found.restConfig()
	if err != nil {
		return nil, err
	}
	return s.options.applyTo(cfg), nil
}

// accept makes the config that changed has returned the current one.
func (s *kubeconfigSource) accept() {
	s.contents, s.used, s.lastError = s.seen, s.found, ""
}

// isNews reports whether the error differs from the last one.
func (s *kubeconfigSource) isNews(err error) bool {
	news := err.Error() != s.lastError
	s.lastError = err.Error()
	return news
}
