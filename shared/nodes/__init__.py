"""What nodes are worth as places for pods: those that are there, those that come, those that could be bought."""
