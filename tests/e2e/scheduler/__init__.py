"""Plans held against the real kube-scheduler: `make e2e-scheduler`."""
