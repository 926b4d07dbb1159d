package redact

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/k8swatchlist/k8swatchlistreceiver/internal/redact/oracle"
)

func TestSensitiveKeys(t *testing.T) {
	for _, key := range strings.Fields(`password dbPassword DB_PASSWORD db-password spring.datasource.password PASSWORD_2 password1 passwd
		APIKey apiKey api_key API_KEY myAPIKey AWSSecretKey TLSKey XAPIToken aws_secret_access_key secret_key_base privateKey clientSecret
		oauth2ClientSecret authToken bearerToken refreshtoken TOKEN tokens jwt credentials connectionString databaseUrl webhookURL userData
		client-key-data secureJsonData .dockerconfigjson kubeconfig auth basicAuth registryAuth set-cookie cookie htpasswd passphrase psk
		github.com/token requirepass AccountKey SharedAccessKey`) {
		assert.True(t, standardKeys.isSensitive([]byte(key)), key)
		assert.True(t, oracle.IsSensitive(key), key)
	}
	for _, key := range strings.Fields(`key publicKey topologyKey secretName secretRef passwordFile password_file tokenUrl tokenTTL privateIp
		gmsaCredentialSpecName checksum/secret example.com/hash-token digest.password imagePullSecret pullSecret tlsSecret caSecret passwordSecret
		httpTokens maxTokens minTokens automountServiceAccountToken allowCredentials updateToken clientRequestToken sessionAffinityCookie
		certificate-authority-data client-certificate-data oauth authType keyRef string url data monkey keys bypass compass tokenizer secrets
		nginx.ingress.kubernetes.io/auth-secret nginx.ingress.kubernetes.io/auth-tls-secret x/proxy-ssl-secret`) {
		assert.False(t, standardKeys.isSensitive([]byte(key)), key)
		assert.False(t, oracle.IsSensitive(key), key)
	}
}

// Both implementations of the policy agree on each word of the corpus and of the real objects, alone and as a part of
// other words.
func TestKeysAreClassifiedAsByTheOracle(t *testing.T) {
	seen := map[string]bool{}
	for _, pattern := range []string{"testdata/corpus/*.json", "testdata/objects/*.json"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			data, err := os.ReadFile(file)
			require.NoError(t, err)
			for _, word := range regexp.MustCompile(`[A-Za-z0-9._/-]{3,40}`).FindAllString(string(data), -1) {
				seen[word] = true
			}
		}
	}
	for word := range seen {
		for _, key := range []string{word, strings.ToUpper(word), "my" + word, "MY_" + word, word + "2", word + "Secret"} {
			assert.Equal(t, oracle.IsSensitive(key), standardKeys.isSensitive([]byte(key)), key)
		}
	}
	assert.Greater(t, len(seen), 1000)
}
