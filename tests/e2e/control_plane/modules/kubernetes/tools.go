//go:build tools

// Package tools exists so that "go mod tidy" keeps, and go.sum pins, what the
// three Kubernetes programs of the test control plane are built from.
package tools

import (
	_ "k8s.io/kubernetes/cmd/kube-apiserver"
	_ "k8s.io/kubernetes/cmd/kube-controller-manager"
	_ "k8s.io/kubernetes/cmd/kube-scheduler"
)
