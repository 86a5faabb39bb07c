"""One seed, one broken world: drawn, played on virtual time through the whole system, judged, and told about.

`worlds` draws what the world is made of, `workload` what its people do, `trouble` what goes wrong in it. `driver` plays
it; `python -m local.simulation` plays many of them.
"""
