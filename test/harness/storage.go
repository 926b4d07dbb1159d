package harness

import (
	"context"
	"testing"

	"github.com/open-telemetry/opentelemetry-collector-contrib/extension/storage/filestorage"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/extension/extensiontest"
	"go.opentelemetry.io/collector/extension/xextension/storage"
)

// OpenFileStorage starts the file_storage extension in this process, for a folder, with its default configuration and
// the given changes. closeIt ends it.
func OpenFileStorage(t testing.TB, folder string, changes ...func(*filestorage.Config)) (extension storage.Extension, closeIt func()) {
	t.Helper()
	factory := filestorage.NewFactory()
	config := factory.CreateDefaultConfig().(*filestorage.Config)
	config.Directory = folder
	for _, change := range changes {
		change(config)
	}
	created, err := factory.Create(t.Context(), extensiontest.NewNopSettings(factory.Type()), config)
	if err != nil {
		t.Fatal(err)
	}
	if err := created.Start(t.Context(), componenttest.NewNopHost()); err != nil {
		t.Fatal(err)
	}
	return created.(storage.Extension), func() {
		if err := created.Shutdown(context.Background()); err != nil {
			t.Errorf("cannot shut file_storage down: %v", err)
		}
	}
}
