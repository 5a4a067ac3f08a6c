"""The Net Switch: one address for life for each workspace, and nothing lost when it moves.

A request that comes to it ends in one of three ways: it is passed on unchanged
to the server that the manager named last, it waits while that server is being
exchanged, or it is told in a 503 that there is none now. It never opens a
workspace by itself, never passes on what another workspace's server said, and
keeps nothing on disk: its routes are the manager's.
"""
