"""Pods to nodes at the least price, under every rule that the scheduler would hold them to."""
