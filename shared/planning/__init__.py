"""The decision, and what bounds it: gangs, quotas, mixes, headroom, and who may go."""
