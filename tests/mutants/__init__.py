"""Patches that break Sluice, one rule each: `make sim-mutants` shows that broken worlds find every one of them."""
