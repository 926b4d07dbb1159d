package kubeclient

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
)

// Fingerprint tells API servers apart without asking them anything: it is a hash of the URL and of the certificate
// authority, as its file is now, or "" if that cannot be read. A cluster that was made anew under the same URL nearly
// always has another authority; one without any, such as behind kubectl proxy, looks the same.
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
