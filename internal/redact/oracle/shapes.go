package oracle

import (
	"regexp"
	"strings"
)

// shapes match secrets that are recognized in any place. The first group that matched has to be masked.
var shapes = []*regexp.Regexp{
	regexp.MustCompile(`(-----BEGIN (?:[A-Z0-9 ]+ )?PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z0-9 ]*-+|$))`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9_])(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]+)*)`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9])((?:A3T[A-Z2-7]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})(?:$|[^A-Za-z0-9])`),
	regexp.MustCompile(`(?:^|[^A-Za-z0-9])(gh[pousr]_[A-Za-z0-9]{36,}|glpat-[A-Za-z0-9_-]{20,}|xox[abeoprs]-[A-Za-z0-9_-]{10,}|hvs\.[A-Za-z0-9_-]{20,}|npm_[A-Za-z0-9]{36,}|SG\.[A-Za-z0-9_.-]{20,}|AIza[A-Za-z0-9_-]{35,}|sk_live_[A-Za-z0-9]{10,}|dop_v1_[0-9a-f]{64,}|hf_[A-Za-z0-9]{34,}|sha256~[A-Za-z0-9_-]{43,})`),
	regexp.MustCompile(`[A-Za-z0-9]://[^:/?#\s"'` + "`" + `\\<>@]*:([^/?#\s"'` + "`" + `\\<>@*$x{][^/?#\s"'` + "`" + `\\<>@]*)@`),
	regexp.MustCompile(`(?:hooks\.slack\.com/services/|api\.telegram\.org/bot)([^\s"'` + "`" + `\\<>]+)`),
}

// Shapes returns the secrets in a text that every implementation of the policy must mask.
func Shapes(s string) []string {
	var all []string
	for _, shape := range shapes {
		for _, m := range shape.FindAllStringSubmatch(s, -1) {
			all = append(all, m[1])
		}
	}
	return all
}

// Mask masks everything that has one of the shapes.
func Mask(s string) string {
	for _, secret := range Shapes(s) {
		s = strings.ReplaceAll(s, secret, masked)
	}
	return s
}

// suspicious matches any sign of something that the policy could mask in a text.
var suspicious = regexp.MustCompile(`(?i)[=:@$]|--|\{s?sha|eyJ|[a-z0-9]{6}\.[a-z0-9]{16}|a3t|akia|asia|abia|acca|gh[pousr]_|github_pat|gl[a-z]+[-_]|xox|xapp|sk[-_]|rk_|hv[sbr]\.|aiza|ya29|sg\.|npm_|pypi-|do[a-z]_v1|dp\.pt|dapi|shp|sntry|hf_|sha256~|age-secret|lin_api|pul-|ltai|bearer|basic|token|digest|negotiate|apikey|hooks|discord|webhook|telegram|^\s*[\[{]|H4sI|^data:`)

// IsInnocent reports whether a text has no sign of anything that the policy could mask.
func IsInnocent(s string) bool {
	return !suspicious.MatchString(s) && !strings.Contains(s, "\n") && (len(s) < 24 || strings.ContainsAny(s, " .-"))
}
