"""``python -m devcluster.hub_ext``: the manager."""

from .app import main

main()
