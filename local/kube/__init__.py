"""A Kubernetes API server, scheduler, kubelets and controllers in one process, on a timeline of the caller's choice."""
