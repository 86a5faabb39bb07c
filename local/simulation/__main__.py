"""See `local.simulation.command`."""

import sys

from local.simulation.command import main

if __name__ == "__main__":
    sys.exit(main())
