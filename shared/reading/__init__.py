"""From objects of the Kubernetes API to the values that plans are made of."""
