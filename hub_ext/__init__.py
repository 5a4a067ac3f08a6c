"""The control plane: what runs where, and how it gets from one place to another.

A JupyterHub service in a process of its own. Everybody writes wishes; only the
reconciler changes states, one step at a time, each recorded before it is taken.
"""
