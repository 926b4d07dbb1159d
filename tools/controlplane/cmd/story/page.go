package main

import (
	"fmt"
	"os"
	"strings"
)

// The marks between which a page has the story.
const (
	beginMark = "<!-- What is between these marks is written by make story-docs. -->\n\n"
	endMark   = "\n<!-- End of the story. -->"
)

// writePage replaces what the page has between the marks with the text, as a block.
func writePage(file, text string) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cannot write the story: %w", err)
	}
	page, err := replaceStory(string(content), text)
	if err != nil {
		return fmt.Errorf("cannot write the story into %s: %w", file, err)
	}
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		return fmt.Errorf("cannot write the story: %w", err)
	}
	return nil
}

func replaceStory(page, text string) (string, error) {
	before, _, after, err := parts(page)
	if err != nil {
		return "", err
	}
	return before + beginMark + "```\n" + text + "```\n" + endMark + after, nil
}

// parts returns what a page has before, between and after the marks, without the marks.
func parts(page string) (before, story, after string, err error) {
	before, rest, found := strings.Cut(page, beginMark)
	story, after, ended := strings.Cut(rest, endMark)
	if !found || !ended {
		return "", "", "", fmt.Errorf("it has no marks: %q and %q", strings.TrimSpace(beginMark), strings.TrimSpace(endMark))
	}
	return before, story, after, nil
}
