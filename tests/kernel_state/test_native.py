"""Native memory comes over by its bytes; what holds addresses is refused by name."""

from __future__ import annotations

from sessions import moved, plan_of, session

CODE = """
import ctypes
number = ctypes.c_int(3); text = ctypes.create_string_buffer(b'abc'); five = ctypes.c_double * 5
class Point(ctypes.Structure):
    _fields_ = [('x', ctypes.c_int), ('y', ctypes.c_double)]
    def norm(self): return self.x + self.y
class Packed(ctypes.Structure):
    _pack_ = 1
    _fields_ = [('a', ctypes.c_byte), ('point', Point), ('few', ctypes.c_short * 2)]
class Either(ctypes.Union):
    _fields_ = [('i', ctypes.c_uint32), ('b', ctypes.c_ubyte * 4)]
point = Point(1, 2.5); point.note = 'n'; many = (Point * 2)(point, point); packed = Packed(1, point)
either = Either(i=258); length = ctypes.sizeof(Packed); array = five(1, 2)
"""


def test_plain_structures_arrays_and_numbers_come_over():
    namespace = session(CODE)
    assert [r for r in plan_of(namespace).values() if r.kind == "refused"] == []
    exec(
        "assert (number.value, text.value, array[1]) == (3, b'abc', 2)\n"
        "assert isinstance(point, Point) and point.norm() == 3.5 and point.note == 'n'\n"
        "assert many[1].y == 2.5 and packed.point.x == 1 and ctypes.sizeof(Packed) == length\n"
        "assert type(array) is five\n"
        "assert list(either.b) == [2, 1, 0, 0] and type(many) is Point * 2\n"
        "point.x = 7; assert many[0].x == 1 and Point(4, 0).x == 4\n",
        moved(namespace),
    )


def test_addresses_libraries_and_parts_of_other_memory_are_refused_by_name():
    namespace = session(
        CODE + "lib = ctypes.CDLL(None); pointer = ctypes.pointer(point); part = packed.point\n"
        "back = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: 1); word = ctypes.c_char_p(b'x')\n"
        "class Node(ctypes.Structure): pass\n"
        "Node._fields_ = [('next', ctypes.POINTER(Node))]\nnode = Node()\n"
        "raw = ctypes.c_int.from_buffer(bytearray(4))\n"
    )
    plan = plan_of(namespace)
    refused = {name for name, record in plan.items() if record.kind == "refused"}
    assert refused >= {"lib", "pointer", "part", "back", "word", "node", "raw"}
    assert refused <= {"lib", "pointer", "part", "back", "word", "node", "raw", "Node"}
    assert "addresses" in plan["pointer"].reason
