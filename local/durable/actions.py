"""What an orchestrator may ask for: the SDK's `actionType` numbers."""

from typing import Final

CALL_ACTIVITY: Final = 0
CALL_ACTIVITY_WITH_RETRY: Final = 1
CALL_SUB_ORCHESTRATOR: Final = 2
CALL_SUB_ORCHESTRATOR_WITH_RETRY: Final = 3
CONTINUE_AS_NEW: Final = 4
CREATE_TIMER: Final = 5
WAIT_FOR_EVENT: Final = 6
CALL_ENTITY: Final = 7
CALL_HTTP: Final = 8
SIGNAL_ENTITY: Final = 9
WHEN_ANY: Final = 11
WHEN_ALL: Final = 12
