package kubeclient

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"k8s.io/client-go/rest"
)

// Fingerprint tells API servers apart without asking them anything: it is a hash of the server's URL and of the
// certificate authority that vouches for it. A cluster that was made anew under the same URL nearly always has another
// authority; one without any, such as behind kubectl proxy, looks the same.
func Fingerprint(cfg *rest.Config) (string, error) {
	base, err := baseURL(cfg)
	if err != nil {
		return "", err
	}
	authority := cfg.CAData
	if len(authority) == 0 && cfg.CAFile != "" {
		if authority, err = os.ReadFile(cfg.CAFile); err != nil {
			return "", fmt.Errorf("cannot read certificate authority: %w", err)
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", base)
	hash.Write(authority)
	return hex.EncodeToString(hash.Sum(nil)[:16]), nil
}
