package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/victorialogs"
)

// How often VictoriaLogs is asked until it has the answers, and how many rows of each are shown: the newest.
const (
	askInterval = time.Second
	shownRows   = 12
)

// showQuestions prints each question with the address of the page that answers it.
func showQuestions(store *victorialogs.Server, namespace string) {
	for _, question := range victorialogs.Questions(namespace) {
		say("%s\n      %s", question.Title, store.Page(question))
	}
}

// answerQuestions prints the questions, the answers and the pages, as soon as every question has an answer. It reports
// whether they have.
func answerQuestions(ctx context.Context, store *victorialogs.Server, namespace string) bool {
	questions := victorialogs.Questions(namespace)
	answers := make([][]victorialogs.Row, len(questions))
	for i := 0; i < len(questions); {
		rows, err := store.Ask(ctx, questions[i].Query)
		switch {
		case ctx.Err() != nil:
			return false
		case err != nil:
			say("%v", err)
			return false
		case len(rows) > 0:
			answers[i] = rows
			i++
			continue
		}
		select {
		case <-time.After(askInterval):
		case <-ctx.Done():
			return false
		}
	}
	var text strings.Builder
	for i, question := range questions {
		writeAnswer(&text, question, answers[i])
		fmt.Fprintf(&text, "      %s\n", store.Page(question))
	}
	// At once, so that no records come in between.
	say("VictoriaLogs answers:\n%s", text.String())
	return true
}

func writeAnswer(text *strings.Builder, question victorialogs.Question, rows []victorialogs.Row) {
	fmt.Fprintf(text, "\n  %s\n", question.Title)
	if hidden := len(rows) - shownRows; hidden > 0 {
		fmt.Fprintf(text, "      (%d before these)\n", hidden)
		rows = rows[hidden:]
	}
	for _, row := range rows {
		text.WriteString("     ")
		for _, column := range question.Columns {
			text.WriteString(" " + row[column] + " ")
		}
		text.WriteByte('\n')
	}
}
