"""Small changes to azure-functions-durable for the local host only; production runs the package as it is.

The host drives the package's own handlers thousands of times a second, where parsing timestamps with dateutil takes
most of the time. `prepare` is idempotent; tests hold each change against the original.
"""

from __future__ import annotations

import importlib
import logging
from datetime import datetime
from typing import Any

_log = logging.getLogger(__name__)


class _Notices:
    """Stands in for the `warnings` module inside the SDK's executor.

    The only warning there is about an event that nobody waits for yet, which is ordinary: it is kept for later.
    """

    def warn(self, message: str) -> None:
        _log.debug("%s", message)


def prepare() -> None:
    """Apply the changes to the installed packages."""
    events: Any = importlib.import_module("azure.durable_functions.models.history.HistoryEvent")
    executor: Any = importlib.import_module("azure.durable_functions.models.TaskOrchestrationExecutor")
    codec: Any = importlib.import_module("azure.functions._durable_functions")
    events.dt_parse = datetime.fromisoformat
    executor.warnings = _Notices()
    codec._no_expected_type_notice_emitted = True  # advice on strict typing, given once per process, as a warning
