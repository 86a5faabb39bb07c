"""The in-cluster process: watches, detectors, publisher; it says what changed, and decides nothing."""
