"""``python -m devcluster.agent``."""

from .app import main

main()
