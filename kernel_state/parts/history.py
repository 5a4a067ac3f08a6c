"""IPython's history database, opened again after the file under it was replaced.

SQLite refuses to write to a file that was moved or replaced since it was opened ("attempt
to write a readonly database"). After a move the home's copy of the source lies there.
"""

from __future__ import annotations

import contextlib
from typing import Any


def reopen_history(shell: Any, session_number: int | None = None) -> bool:
    """Open the history database again, so that later cells are recorded.

    Parameters
    ----------
    shell
        IPython's shell.
    session_number
        The history session to go on with, if the database knows it; else a new one begins.

    Returns
    -------
    bool
        Whether cells are recorded to a file now. Never raises: history is not worth a session.
    """
    history = getattr(shell, "history_manager", None)
    if history is None or not getattr(history, "enabled", False):
        return False
    if str(history.hist_file) == ":memory:":
        return False
    try:
        _stop(history)
        with contextlib.suppress(Exception):
            history.db.close()
        history.db_input_cache = []
        history.db_output_cache = []
        history.init_db()
        if not _go_on(history, session_number):
            history.new_session()
        if getattr(history, "using_thread", False):
            from IPython.core.history import HistorySavingThread

            history.save_thread = HistorySavingThread(history)
            history.save_thread.start()
    except Exception:
        return False
    return True


def _stop(history: Any) -> None:
    thread = getattr(history, "save_thread", None)
    if thread is not None:
        thread.stop()
        history.save_thread = None


def _go_on(history: Any, session_number: int | None) -> bool:
    if session_number is None:
        return False
    found = history.db.execute(
        "SELECT 1 FROM sessions WHERE session = ?", (session_number,)
    ).fetchone()
    if found is None:
        return False
    history.session_number = session_number
    return True
