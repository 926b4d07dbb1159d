package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/k8swatchlist/k8swatchlistreceiver/tools/controlplane/victorialogs"
)

// pictureTimeout is how long the browser may take to start, load the page and end.
const pictureTimeout = 2 * time.Minute

// takePicture writes a picture of the page that answers the first question to the file, as PNG, with the browser in
// $BROWSER, or else chromium from $PATH.
func takePicture(ctx context.Context, store *victorialogs.Server, namespace, file string) error {
	fail := func(err error) error { return fmt.Errorf("cannot take a picture of the page of VictoriaLogs: %w", err) }
	file, err := filepath.Abs(file)
	if err != nil {
		return fail(err)
	}
	profile, err := os.MkdirTemp("", "browser-")
	if err != nil {
		return fail(err)
	}
	defer os.RemoveAll(profile) //nolint:errcheck // it is below the temporary folder of the system
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fail(err)
	}
	ctx, cancel := context.WithTimeout(ctx, pictureTimeout)
	defer cancel()
	page := store.Page(victorialogs.Questions(namespace)[0])
	output, err := exec.CommandContext(ctx, cmp.Or(os.Getenv("BROWSER"), "chromium"),
		"--headless", "--disable-gpu", "--hide-scrollbars", "--user-data-dir="+profile,
		"--no-sandbox", // which needs rights that a container may lack; the page comes from our own process
		"--window-size=1280,720", "--virtual-time-budget=8000", "--screenshot="+file, page).CombinedOutput()
	if err != nil {
		return fail(fmt.Errorf("%w: %s", err, output))
	}
	// The browser ends without an error even if it has not written anything.
	if _, err := os.Stat(file); err != nil {
		return fail(fmt.Errorf("%w: %s", err, output))
	}
	return nil
}
