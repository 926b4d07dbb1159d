package redact

import "bytes"

// family is a group of programs that accept a password through the same options.
type family uint8

const (
	unknownProgram family = iota
	mysql
	redis
	sshpass
	mongo
	login // docker and others: -p is a password only after "login"
	curl
	ldap
	keytool
	openssl
	families = iota
)

var programs = map[string]family{
	"mysql": mysql, "mysqladmin": mysql, "mysqldump": mysql, "mariadb": mysql, "mariadb-admin": mysql, "mariadb-dump": mysql,
	"redis-cli": redis, "sshpass": sshpass, "mongo": mongo, "mongosh": mongo, "mongodump": mongo, "mongorestore": mongo, "cqlsh": mongo,
	"docker": login, "podman": login, "az": login, "buildah": login, "skopeo": login, "helm": login, "nerdctl": login,
	"curl": curl, "ldapsearch": ldap, "ldapmodify": ldap, "ldapadd": ldap, "keytool": keytool, "openssl": openssl,
}

// secretOptions are the options of a family whose argument is a secret, in the same word, in the next one, or both.
var secretOptions = [families]struct{ attached, next []string }{
	mysql:   {attached: []string{"-p"}},
	redis:   {next: []string{"-a", "--pass"}},
	sshpass: {attached: []string{"-p"}, next: []string{"-p"}},
	mongo:   {attached: []string{"-p"}, next: []string{"-p"}},
	login:   {attached: []string{"-p"}, next: []string{"-p"}},
	curl:    {attached: []string{"-u"}, next: []string{"-u", "--user", "-U", "--proxy-user"}},
	ldap:    {attached: []string{"-w"}, next: []string{"-w"}},
	keytool: {next: []string{"-storepass", "-keypass", "-srcstorepass", "-deststorepass", "-srckeypass", "-destkeypass"}},
	openssl: {next: []string{"-passin", "-passout", "-k", "-pass"}},
}

// command reads the words of a command line one by one.
type command struct {
	keys    *keyTable
	family  family
	started bool // the program's name has been read
	isLogin bool
	pending pending
}

// pending is the meaning of the next word.
type pending uint8

const (
	isNothing pending = iota
	isSecretValue
	isLiteral    // name=value with a secret value
	isAssignment // name=value
)

// word returns the start of a secret in the next word of the command line, or -1.
func (c *command) word(s []byte) int {
	pending := c.pending
	c.pending = isNothing
	switch {
	case len(s) == 0:
		return -1
	case pending == isSecretValue && s[0] != '-':
		if isReference(s) {
			return -1
		}
		return 0
	case pending == isLiteral:
		return bytes.IndexByte(s, '=') + 1
	}
	if s[0] != '-' {
		return c.plain(s)
	}
	if at := c.option(s); at >= 0 {
		return at
	}
	name, value, hasValue := bytes.Cut(s, []byte("="))
	literal := string(name) == "--from-literal"
	switch {
	case literal && hasValue:
		if at := bytes.IndexByte(value, '='); at >= 0 {
			return len(name) + 1 + at + 1
		}
	case literal:
		c.pending = isLiteral
	case !c.keys.isSensitive(name):
	case hasValue:
		if !isReference(value) {
			return len(name) + 1
		}
	default:
		c.pending = isSecretValue
	}
	return -1
}

// plain is word for a word that is not an option.
func (c *command) plain(s []byte) int {
	if name, value, ok := bytes.Cut(s, []byte("=")); ok {
		if all(name, isKey) && c.keys.isSensitive(name) && !isReference(value) {
			return len(name) + 1
		}
		return -1 // as in env A=b program
	}
	if !c.started {
		program := s[bytes.LastIndexByte(s, '/')+1:]
		switch string(program) {
		case "sudo", "env", "exec", "nohup", "time", "timeout", "xargs", "then", "do", "else", "if", "while", "!", "sh", "bash":
			return -1
		}
		c.started = true
		if f := programs[string(program)]; f != unknownProgram {
			c.family = f
		}
	} else if string(s) == "login" {
		c.isLogin = true
	} else if c.family == unknownProgram || c.family == sshpass {
		if f := programs[string(s[bytes.LastIndexByte(s, '/')+1:])]; f != unknownProgram {
			c.family = f // behind a wrapper
		}
	}
	return -1
}

// option checks for the short options of the program.
func (c *command) option(s []byte) int {
	if c.family == login && !c.isLogin {
		return -1
	}
	for _, o := range secretOptions[c.family].next {
		if string(s) == o {
			c.pending = isSecretValue
			return -1
		}
		if len(o) > 2 && hasPrefix(s, o) && s[len(o)] == '=' {
			return len(o) + 1
		}
	}
	for _, o := range secretOptions[c.family].attached {
		if len(s) > len(o) && hasPrefix(s, o) {
			if isReference(s[len(o):]) {
				return -1
			}
			return len(o)
		}
	}
	return -1
}

// commandLine walks the array at data[i], whose strings are the words of a command.
func (w *walk) commandLine(i int, r *rule, depth int) (end int, err error) {
	c := command{keys: w.plan.keys}
	if r.note != nothing {
		c.family = w.family
	}
	if r.family != unknownProgram {
		c.family = r.family
	}
	c.started = c.family != unknownProgram
	outer, wasInCommand := w.command, w.inCommand
	w.command, w.inCommand = c, true
	end, err = w.array(i, r.in, depth)
	w.family = w.command.family
	w.command, w.inCommand = outer, wasInCommand
	return end, err
}

// argument masks the secret in the string data[i:end], a word of a command, if its option or the words before it mark
// one. It reports whether it has written the string.
func (w *walk) argument(i, end int, text []byte) bool {
	at := w.command.word(text)
	if at < 0 || at >= len(text) || string(text[at:]) == Masked || w.isKeptText() {
		return false
	}
	found := [1]finding{{span{at, len(text)}, RuleCommand}}
	w.replace(i, end, appendMasked(nil, text, found[:]), found[:])
	return true
}

// isScript reports whether a word of a command consists of several words.
func isScript(s []byte) bool { return len(s) > 0 && s[0] != '-' && bytes.IndexByte(s, ' ') >= 0 }

// script finds the secrets on the command lines of a script.
func (t *scanner) script(text []byte) {
	t.text = text
	c := command{keys: t.keys}
	for i := 0; i < len(text); {
		switch b := text[i]; b {
		case ' ', '\t', '\\', '\r':
			i++
			continue
		case '\n', ';', '|', '&', '(', ')', '`':
			c = command{keys: t.keys}
			i++
			continue
		}
		from, to, next := shellWord(text, i)
		if at := c.word(text[from:to]); at >= 0 && from+at < to {
			value, end := from+at, to
			if q := text[value]; (q == '"' || q == '\'') && end-value > 1 && text[end-1] == q {
				value, end = value+1, end-1
			}
			if !isReference(text[value:end]) {
				t.found = append(t.found, finding{span{value, end}, RuleCommand})
			}
		}
		i = next
	}
}

// shellWord returns the word of a shell script at text[i], without quotes around the whole word, and where the next may
// start.
func shellWord(text []byte, i int) (from, to, next int) {
	from = i
	for i < len(text) {
		switch b := text[i]; b {
		case '"', '\'':
			end := bytes.IndexByte(text[i+1:], b)
			if end < 0 {
				return from, len(text), len(text)
			}
			i += end + 2
			continue
		case '\\':
			i += 2
			continue
		case '$':
			if i+1 < len(text) && (text[i+1] == '(' || text[i+1] == '{') {
				closing := byte(')')
				if text[i+1] == '{' {
					closing = '}'
				}
				if end := bytes.IndexByte(text[i:min(len(text), i+maxKey)], closing); end >= 0 {
					i += end + 1
					continue
				}
			}
		case ' ', '\t', '\n', '\r', ';', '|', '&', '(', ')', '`':
			return trimQuotes(text, from, i)
		}
		i++
	}
	return trimQuotes(text, from, min(i, len(text)))
}

func trimQuotes(text []byte, from, to int) (int, int, int) {
	if q := text[from]; to-from >= 2 && (q == '"' || q == '\'') && text[to-1] == q {
		return from + 1, to - 1, to
	}
	return from, to, max(to, from+1)
}
