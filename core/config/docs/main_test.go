package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPageIsCurrent(t *testing.T) {
	kept, err := os.ReadFile("../../../docs/configuration.md")
	require.NoError(t, err)
	assert.Equal(t, page(), string(kept), "run: go run ./core/config/docs > docs/configuration.md")
}
