//go:build tools

// Package tools exists so that "go mod tidy" keeps, and go.sum pins, what the
// kwok of the test control plane is built from.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"
