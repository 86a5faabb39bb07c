"""The parts of a control plane that act by themselves: each small, woken by changes, never polling."""
