"""The outside behind small protocols: Azure compute, Kubernetes, Event Grid, blobs.

The core imports nothing from here; the functions and the exporter see the protocols and the error tree only.
"""
