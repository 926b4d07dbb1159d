package redact

// Rule names the rule of the policy that masked a value.
type Rule uint8

// The rules, in the order in which docs/redaction.md explains them.
const (
	noRule            Rule = iota
	RuleLastApplied        // a copy of a manifest, which is dropped
	RuleSecret             // a value of a Secret
	RuleConfigMap          // a value of a ConfigMap
	RuleEnvironment        // the value of an environment variable
	RulePair               // the value beside a sensitive name
	RuleHeader             // the value of a header
	RuleCommand            // an argument of a command
	RuleKey                // the value under a sensitive key
	RuleDocument           // a document inside a string
	RuleAssignment         // the value of an assignment in a text
	RulePrivateKey         // a private key in PEM
	RuleToken              // a token of a known form
	RuleAuthorization      // credentials after an authentication scheme
	RuleURL                // a password, signature or secret path in a URL
	RulePasswordHash       // a hash of a password
	Rules             = iota
)

var ruleNames = [Rules]string{
	"", "last_applied", "secret", "configmap", "environment", "pair", "header", "command", "key", "document", "assignment",
	"private_key", "token", "authorization", "url", "password_hash",
}

// String returns the name of the rule in metrics.
func (r Rule) String() string { return ruleNames[r] }
