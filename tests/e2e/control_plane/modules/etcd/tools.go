//go:build tools

// Package tools exists so that "go mod tidy" keeps, and go.sum pins, what the
// etcd of the test control plane is built from.
package tools

import _ "go.etcd.io/etcd/server/v3"
