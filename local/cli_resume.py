"""`sluice resume`: see `local.cli_levers`."""

from __future__ import annotations

from local.cli_levers import add_common as add_arguments
from local.cli_levers import resume as run

__all__ = ["add_arguments", "run"]
