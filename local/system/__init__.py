"""The parts put together: on virtual time for the simulator, as processes over HTTP on the wall clock."""
