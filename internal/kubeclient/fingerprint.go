package kubeclient

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
)

// Fingerprint distinguishes API servers without a request. It is a hash of the URL and of the current content of the
// certificate authority's file, or "" if that cannot be read. A cluster that was recreated under the same URL nearly
// always has another authority. Without an authority, as behind kubectl proxy, it looks the same.
func (c *Client) Fingerprint() string {
	c.mu.Lock()
	s := c.session
	c.mu.Unlock()
	authority := s.cfg.CAData
	if len(authority) == 0 && s.cfg.CAFile != "" {
		var err error
		if authority, err = os.ReadFile(s.cfg.CAFile); err != nil {
			return ""
		}
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%s\n", s.base)
	hash.Write(authority)
	return hex.EncodeToString(hash.Sum(nil)[:16])
}
