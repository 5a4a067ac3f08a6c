"""Exceptions come over with their cause, without running the notebook's ``__init__`` again."""

from __future__ import annotations

from sessions import moved, plan_of, session

CODE = """
import json, subprocess
class Own(Exception):
    def __init__(self, code, *, why): super().__init__('text'); self.code = code
class Missing(OSError):
    def __init__(self, name): super().__init__(2, 'no', name)
class Group(ExceptionGroup): pass
try:
    try: 1 / 0
    except ZeroDivisionError as error: raise Own(1, why=2) from error
except Own as error: err = error
try: open('/nope')
except OSError as error: system = error
try: json.loads('{')
except ValueError as error: parse = error
try: b'\\xff'.decode()
except UnicodeError as error: text = error
missing = Missing('f'); group = Group('g', [err, ValueError(1)]); noted = KeyError('z')
noted.add_note('hi'); end = StopIteration(4); left = SystemExit(3); err.me = err
ended = subprocess.CalledProcessError(1, ['a'], b'x'); noted.__context__ = err
"""


def test_exceptions_come_over_without_their_traceback_and_say_so():
    namespace = session(CODE)
    plan = plan_of(namespace)
    assert "without its traceback" in plan["err"].reason
    assert plan["end"].kind == "carried"
    exec(
        "assert err.code == 1 and err.args == ('text',) and err.me is err\n"
        "assert type(err.__cause__) is ZeroDivisionError and err.__suppress_context__\n"
        "assert system.errno == 2 and system.filename == '/nope' and parse.pos == 1\n"
        "assert text.start == 0 and missing.filename == 'f' and isinstance(missing, Missing)\n"
        "assert group.exceptions[0] is err and type(group) is Group\n"
        "assert noted.__notes__ == ['hi'] and noted.__context__ is err and str(noted) == \"'z'\"\n"
        "assert end.value == 4 and left.code == 3 and ended.returncode == 1\n",
        moved(namespace),
    )
