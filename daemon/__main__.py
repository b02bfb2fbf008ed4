"""The process `aidaemon`."""

import sys

from daemon.cli import main

if __name__ == "__main__":
    sys.exit(main())
