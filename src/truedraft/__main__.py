"""`python -m truedraft`."""

import sys

from truedraft.cli import main

if __name__ == "__main__":
    sys.exit(main())
