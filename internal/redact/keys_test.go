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
	keys := manyKeys(t)
	for _, key := range keys {
		assert.Equal(t, oracle.IsSensitive(key), standardKeys.isSensitive([]byte(key)), key)
	}
	assert.Greater(t, len(keys), 5000)
}

// The check of a key's last letters only saves work: no key with a class fails it.
func TestEndingsOfKeysHideNoClass(t *testing.T) {
	keys := manyKeys(t)
	for _, table := range []*keyTable{
		standardKeys, newKeyTable([]string{"licenseText", "user-Pin2", "userId"}), newKeyTable([]string{"*_pin", "x-*-Id", "*7"}), newKeyTable([]string{"my*"}),
	} {
		for _, key := range keys {
			for _, key := range []string{key, key + "UserPin_2", key + "_user_id", key + "-LICENSE-te-xt_", key + "_PIN", "x-" + key + "-ID", "my" + key + "é7"} {
				if got, want := table.classify([]byte(key)), table.classifyWords([]byte(key)); got != want {
					t.Errorf("%q with %v has the class %d instead of %d", key, table.extra, got, want)
				}
			}
		}
	}
}

// manyKeys are the words of the corpus and of the real objects, as they are and as parts of others.
func manyKeys(t *testing.T) (keys []string) {
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
		keys = append(keys, word, strings.ToUpper(word), "my"+word, "MY_"+word, word+"2", word+"Secret")
	}
	return keys
}
