"""How long Sluice takes for what cannot wait: a latency model, and the whole system metered by it."""
