"""`sluice pause`: see `local.cli_levers`."""

from __future__ import annotations

from local.cli_levers import add_of_pause as add_arguments
from local.cli_levers import pause as run

__all__ = ["add_arguments", "run"]
