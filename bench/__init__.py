"""Benchmarks beside their peers: what Sluice must beat, measured in the same run on the same machine."""
