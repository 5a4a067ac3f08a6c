"""Matches, scanners and structs come over; an iterator of matches is refused by name."""

from __future__ import annotations

from sessions import moved, plan_of, session


def test_matches_are_made_again_whichever_way_they_were_found():
    namespace = session(
        "import re\nrx = re.compile(r'(?P<w>\\w+)-(\\d+)'); m = rx.match('xxab-12', 2)\n"
        "all_ = list(re.finditer('a', 'banana')); full = re.fullmatch('a|ab', 'ab')\n"
        "inner = re.search('an', 'banana', re.I); empty = re.match('', ''); seen = []\n"
        "re.sub('n', lambda m: seen.append(m) or 'N', 'banana')\n"
        "data = re.search(b'b', b'ab')\n"
    )
    assert plan_of(namespace)["m"].kind == "rebuilt"
    exec(
        "assert m['w'] == 'ab' and m.re is rx and m.pos == 2 and m.lastindex == 2\n"
        "assert [(x.span(), x.pos) for x in all_] == [((1, 2), 0), ((3, 4), 0), ((5, 6), 0)]\n"
        "assert full[0] == 'ab' and inner.span() == (1, 3) and empty.span() == (0, 0)\n"
        "assert [x.start() for x in seen] == [2, 4] and data[0] == b'b'\n",
        moved(namespace),
    )


def test_a_match_whose_text_has_changed_is_refused():
    namespace = session("import re\ntext = bytearray(b'abc'); m = re.search(b'b', text)\n")
    namespace["text"][1:2] = b"x"
    plan = plan_of(namespace)
    assert plan["m"].kind == "refused"
    assert "x.group()" in plan["m"].remedy


def test_a_scanner_that_has_run_goes_on_scanning():
    there = moved(
        session(
            "import re, struct\n"
            "sc = re.Scanner([(r'\\d+', lambda s, t: int(t) + K), ('x', None)], re.I); K = 0\n"
            "sc.scan('12'); form = struct.Struct('<if')\n"
        )
    )
    there["K"] = 1
    assert there["sc"].scan("1X2") == ([2, 3], "")
    assert there["form"].size == 8


def test_an_iterator_of_matches_is_refused_by_name():
    plan = plan_of(session("import re\nit = re.finditer('a', 'banana'); next(it)"))
    assert plan["it"].kind == "refused"
    assert "re.finditer" in plan["it"].reason
