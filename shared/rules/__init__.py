"""What kube-scheduler asks of a node, and of the pods that are there already."""
