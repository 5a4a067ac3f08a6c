"""The words that every part shares: pure values and functions, no I/O, no clock.

What stands here may be imported by all parts; it imports none of them. The one
exception to "no I/O" is :mod:`devcluster.core.faults`, which looks at a folder
only where a test asks for it by an environment variable.
"""
