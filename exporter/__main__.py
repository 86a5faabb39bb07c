"""`python -m exporter`."""

from __future__ import annotations

import sys

from exporter.main import main

sys.exit(main())
