"""``python -m devcluster.cli``."""

from . import main

main()
