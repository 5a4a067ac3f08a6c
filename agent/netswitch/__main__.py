"""``python -m devcluster.agent.netswitch``."""

from .app import main

main()
