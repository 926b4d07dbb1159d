package redact

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTextMasksShapesOfSecrets(t *testing.T) {
	for in, want := range textCases {
		assert.Equal(t, want, Text(in), in)
	}
}

// texts are the seeds of the fuzzers.
var texts = slices.Sorted(maps.Keys(textCases))

var textCases = map[string]string{
	`pull from https://user:hunter2@registry.example.com/x failed`:        `pull from https://user:[REDACTED]@registry.example.com/x failed`,
	`Get "https://sas.example.com/x?sv=2020&sig=abc%2Fdef&se=1": timeout`: `Get "https://sas.example.com/x?sv=2020&sig=[REDACTED]&se=1": timeout`,
	`header Authorization: Bearer abcdefgh12345 refused`:                  `header Authorization: Bearer [REDACTED] refused`,
	`secrets "db-password" not found`:                                     `secrets "db-password" not found`,
	`spec.containers[0].env[1].value: Invalid value: "hunter2": no`:       `spec.containers[0].env[1].value: Invalid value: "[REDACTED]": no`,
	`the token: expired`:                                                                `the token: expired`,
	`failed: password=hunter2 user=x`:                                                   `failed: password=[REDACTED] user=x`,
	`key AKIAIOSFODNN7EXAMPLE is wrong`:                                                 `key [REDACTED] is wrong`,
	`root:hunter2@tcp(db:3306)/x`:                                                       `root:[REDACTED]@tcp(db:3306)/x`,
	`{"password":"hun\"ter2","user":"x"}`:                                               `{"password":"[REDACTED]","user":"x"}`,
	"password: |\n  hunter2\n  hunter3\nuser: x":                                        "password: |\n  [REDACTED]\n  [REDACTED]\nuser: x",
	"- name: DB_PASSWORD\n  value: hunter2\n- name: USER\n  value: x":                   "- name: DB_PASSWORD\n  value: [REDACTED]\n- name: USER\n  value: x",
	"env:\n- name: A\n  value: hunter2\n  valueFrom:\n    secretKeyRef:\n      name: n": "env:\n- name: A\n  value: [REDACTED]\n  valueFrom:\n    secretKeyRef:\n      name: n",
	`image sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae`:     `image sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae`,
	`token: expired`: `token: [REDACTED]`,
	"privateKey: |\n  name: hunter2\n  # hunter3\nx: y": "privateKey: |\n  [REDACTED]\n  [REDACTED]\nx: y",
	`use mysql --password hunter2 --host x`:             `use mysql --password [REDACTED] --host x`,
}
