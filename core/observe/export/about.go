package export

import (
	"context"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
)

// about describes the process. What the environment says wins. The instance is there so
// that a collector does not take the processes of one service for the same.
func about(ctx context.Context) (*resource.Resource, error) {
	program := "go"
	if path, err := os.Executable(); err == nil {
		program = filepath.Base(path)
	}
	return resource.New(ctx, resource.WithHost(), resource.WithTelemetrySDK(), resource.WithAttributes(
		attribute.String("service.name", "unknown_service:"+program),
		attribute.String("service.instance.id", uuid.NewString()),
	), resource.WithFromEnv())
}
