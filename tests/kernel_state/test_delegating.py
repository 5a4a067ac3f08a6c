"""Objects whose class answers for others come over without being asked."""

from __future__ import annotations

from sessions import moved, plan_of, session

CODE = """
class Wrapper:
    def __init__(self, of): self.of = of
    def __getattr__(self, name): return getattr(self.of, name)
class Slotted:
    __slots__ = ('of', '__dict__')
    def __getattr__(self, name): return getattr(self.of, name)
class Attributes(dict):
    __getattr__ = dict.get
    __setattr__ = dict.__setitem__
class Strict(dict):
    __getattr__ = dict.__getitem__
class Rows(list):
    def __getattr__(self, name): return 1
wrapped = [1]; wrapper = Wrapper(wrapped); slotted = Slotted(); slotted.of = 'q'; slotted.z = 1
loose = Attributes(a=1); object.__setattr__(loose, 'hidden', 2); strict = Strict(a=1)
strict['me'] = strict; rows = Rows([1, 2])
"""


def test_wrappers_and_dicts_with_attributes_come_over():
    namespace = session(CODE)
    assert {record.kind for record in plan_of(namespace).values()} == {"carried"}
    exec(
        "wrapper.append(2); assert wrapped == [1, 2] and wrapper.of is wrapped\n"
        "assert slotted.upper() == 'Q' and slotted.z == 1 and loose.a == 1 and rows == [1, 2]\n"
        "assert loose.__dict__ == {'hidden': 2} and strict.a == 1 and strict.me is strict\n",
        moved(namespace),
    )
