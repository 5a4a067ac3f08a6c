"""Kernel states that a move must carry or refuse by name, and what tries them.

``corpus.py`` is plain data; ``DEVCLUSTER_STATES`` may name another file of its form.
"""
