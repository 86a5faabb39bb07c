"""The pure core of Sluice: what to buy, what to give back, and why.

Nothing in here reads a clock, draws a random number or talks to anything: `now` and ids are
parameters, and everything outside stands behind `shared.adapters`, which no core module imports.
"""
