"""The ``devcluster`` command: what the panel does, in a terminal and for programs.

Every command takes ``--json``: then standard output holds the records of
:mod:`devcluster.core.records` as JSON and nothing else; progress and errors go to
standard error. Exit statuses are in :mod:`devcluster.cli.exits`.
"""


def main() -> None:
    """Run the command line."""
    from .app import app

    app()
