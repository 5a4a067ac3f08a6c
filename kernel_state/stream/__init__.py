"""Captures as a stream of blocks: written and read forward only, to files, pipes and sockets."""
