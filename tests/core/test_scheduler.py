"""The scheduler: best fit, fair, explained, and never more than there is."""

from __future__ import annotations

from devcluster.core.resources import Flavor, Gpu
from devcluster.core.scheduler import (
    Ask,
    HostRoom,
    Plan,
    Snapshot,
    Taken,
    count_free,
    count_total,
    impossible,
    plan,
    waits_in_circle,
)
from hypothesis import given, settings
from hypothesis import strategies as st

GIB = 2**30
CPU = Flavor(name="cpu", cpus=1, memory=2 * GIB)
ONE = Flavor(name="1xA100", title="1 × A100", gpu_model="A100", gpus=1, cpus=1, memory=2 * GIB)
TWO = Flavor(name="2xA100", gpu_model="A100", gpus=2, cpus=2, memory=4 * GIB)
V = Flavor(name="1xV100", gpu_model="V100", gpus=1, cpus=1, memory=2 * GIB)
EIGHT = Flavor(name="8xA100", gpu_model="A100", gpus=8, cpus=1, memory=2 * GIB)


def host(name: str, model: str = "", count: int = 0, **facts: object) -> HostRoom:
    gpus = tuple(Gpu(uuid=f"{name}-{i}", model=model, memory=GIB) for i in range(count))
    facts = {"cpus": 8.0, "memory": 32 * GIB} | facts
    return HostRoom(name=name, gpus=gpus, **facts)  # type: ignore[arg-type]


def taken(workspace: str, where: str, flavor: Flavor, *gpus: str, owner: bool = True) -> Taken:
    return Taken(workspace, where, flavor.cpus, flavor.memory, frozenset(gpus), owner)


def where(decided: Plan) -> dict[str, str]:
    return {p.workspace: p.host for p in decided.placements}


def why(decided: Plan) -> dict[str, str]:
    return {w.workspace: w.reason for w in decided.waits}


def test_work_without_gpus_goes_to_hosts_without_gpus() -> None:
    snapshot = Snapshot((host("a", "A100", 2), host("b")))
    assert where(plan(snapshot, [Ask("w", CPU)])) == {"w": "b"}
    full = Snapshot((host("a", "A100", 2), host("b", cpus=0.5)))
    assert where(plan(full, [Ask("w", CPU)])) == {"w": "a"}


def test_the_host_with_least_left_over_is_taken() -> None:
    snapshot = Snapshot((host("a", "A100", 4), host("b", "A100", 2), host("c", "V100", 1)))
    assert where(plan(snapshot, [Ask("w", ONE)])) == {"w": "b"}
    assert where(plan(snapshot, [Ask("w", TWO, home="a")])) == {"w": "b"}


def test_on_a_tie_the_host_with_the_home_wins() -> None:
    snapshot = Snapshot((host("a", "A100", 2), host("b", "A100", 2)))
    assert where(plan(snapshot, [Ask("w", ONE, home="b")])) == {"w": "b"}
    assert where(plan(snapshot, [Ask("w", ONE)])) == {"w": "a"}


def test_a_place_needs_a_fresh_host_without_trouble() -> None:
    snapshot = Snapshot((host("a", "A100", 2, answers=False), host("b", "A100", 1, trouble="full")))
    decided = plan(snapshot, [Ask("w", ONE)])
    assert why(decided)["w"] == "waits for 1 × A100: a does not answer; b full"


def test_a_home_that_does_not_answer_is_waited_for() -> None:
    snapshot = Snapshot((host("a", answers=False), host("b")))
    assert "a, which holds its home" in why(plan(snapshot, [Ask("w", CPU, home="a")]))["w"]
    assert "gone, which holds" in why(plan(snapshot, [Ask("w", CPU, home="gone")]))["w"]


def test_a_home_on_a_host_in_trouble_can_be_left() -> None:
    snapshot = Snapshot((host("a", trouble="drains"), host("b")))
    assert where(plan(snapshot, [Ask("w", CPU, home="a")])) == {"w": "b"}


def test_reasons_are_for_people() -> None:
    snapshot = Snapshot((host("a", "A100", 2),), (taken("x", "a", TWO, "a-0", "a-1"),))
    assert why(plan(snapshot, [Ask("w", ONE)]))["w"] == "waits for 1 × A100: both are taken"
    snapshot = Snapshot((host("a", "A100", 2),), (taken("x", "a", ONE, "a-0"),))
    assert why(plan(snapshot, [Ask("w", TWO)]))["w"] == "waits for 2 × A100: 1 of 2 is free"
    assert "none has reported" in why(plan(Snapshot(()), [Ask("w", CPU)]))["w"]


def test_a_later_request_passes_only_with_what_the_earlier_cannot_use() -> None:
    snapshot = Snapshot(
        (host("a", "A100", 2), host("v", "V100", 1), host("c")), (taken("x", "a", ONE, "a-0"),)
    )
    decided = plan(snapshot, [Ask("big", TWO), Ask("small", ONE), Ask("other", V), Ask("no", CPU)])
    assert where(decided) == {"other": "v", "no": "c"}
    assert why(decided)["small"] == "waits for 1 × A100: others asked before"


def test_whoever_waits_for_its_home_holds_nothing() -> None:
    snapshot = Snapshot((host("a", "A100", 2), host("h", answers=False)))
    decided = plan(snapshot, [Ask("w", TWO, home="h"), Ask("later", TWO)])
    assert where(decided) == {"later": "a"}


def test_b33_the_own_lease_is_free_for_the_own_switch() -> None:
    snapshot = Snapshot((host("a", "A100", 2),), (taken("w", "a", ONE, "a-1"),))
    [placed] = plan(snapshot, [Ask("w", TWO, home="a")]).placements
    assert set(placed.gpus) == {"a-0", "a-1"}
    full = Snapshot((host("a", "A100", 2, cpus=2),), (taken("w", "a", TWO, "a-0", "a-1"),))
    assert where(plan(full, [Ask("w", ONE, home="a")])) == {"w": "a"}
    assert where(plan(full, [Ask("other", ONE)])) == {}


def test_b33_a_lease_that_is_being_released_is_not_free() -> None:
    snapshot = Snapshot((host("a", "A100", 2),), (taken("w", "a", TWO, "a-0", "a-1", owner=False),))
    assert where(plan(snapshot, [Ask("w", ONE)])) == {}


def test_b33_what_can_never_be_says_what_is_the_largest() -> None:
    snapshot = Snapshot((host("a", "A100", 2), host("c")))
    assert "The largest is a with 2 × A100" in impossible(snapshot, EIGHT)
    assert "GPUs here: A100" in impossible(snapshot, V)
    assert "largest is" in impossible(snapshot, Flavor(name="huge", cpus=100, memory=GIB))
    assert "together with" in impossible(snapshot, ONE.model_copy(update={"cpus": 100.0}))
    assert impossible(snapshot, TWO) == ""
    assert impossible(Snapshot(()), EIGHT) == "", "hosts may still report"


def test_b33_a_circle_of_waiting_is_found() -> None:
    snapshot = Snapshot(
        (host("a", "A100", 1), host("v", "V100", 1)),
        (taken("x", "a", ONE, "a-0"), taken("y", "v", V, "v-0")),
    )
    assert waits_in_circle(snapshot, [Ask("x", V, "a")], Ask("y", ONE, "v")) == ["y", "x"]
    assert waits_in_circle(snapshot, [], Ask("y", ONE, "v")) == []
    assert waits_in_circle(snapshot, [Ask("x", CPU, "a")], Ask("y", ONE, "v")) == []


def test_counts_agree_with_planning() -> None:
    snapshot = Snapshot(
        (host("a", "A100", 2), host("l", "A100", 4, answers=False, lost=True), host("c")),
        (taken("x", "a", ONE, "a-0"),),
    )
    assert (count_free(snapshot, ONE), count_total(snapshot, ONE)) == (1, 2)
    assert (count_free(snapshot, TWO), count_total(snapshot, TWO)) == (0, 1)
    assert count_free(snapshot, ONE, [Ask("w", TWO)]) == 0, "held for the one that waits"
    assert count_total(snapshot, CPU) == 16


# --- properties ------------------------------------------------------------------------

FLAVORS = [CPU, ONE, TWO, V, EIGHT]
HOSTS = st.lists(
    st.builds(
        lambda model, count, cpus, memory, answers, trouble: (
            model, count, cpus, memory, answers, trouble,
        ),
        st.sampled_from(["A100", "V100"]), st.integers(0, 3), st.sampled_from([1.0, 2.5, 8.0]),
        st.sampled_from([2 * GIB, 8 * GIB]), st.booleans(), st.sampled_from(["", "", "full"]),
    ),
    max_size=4,
)  # fmt: skip


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, list[Ask]]:
    hosts = tuple(
        host(f"h{i}", m, n, cpus=c, memory=r, answers=a, trouble=t)
        for i, (m, n, c, r, a, t) in enumerate(draw(HOSTS))
    )
    names = [f"w{i}" for i in range(6)]
    first = plan(
        Snapshot(tuple(host_as_fresh(h) for h in hosts)),
        [Ask(n, draw(st.sampled_from(FLAVORS))) for n in draw(st.permutations(names))[:4]],
    )
    flavors = {n: draw(st.sampled_from(FLAVORS)) for n in names}
    leases = tuple(
        Taken(p.workspace, p.host, 1.0, 2 * GIB, frozenset(p.gpus), draw(st.booleans()))
        for p in first.placements
    )
    home = st.sampled_from([None, "h0", "h1"])
    asks = [Ask(n, flavors[n], draw(home)) for n in draw(st.permutations(names))]
    return Snapshot(hosts, leases), asks


def host_as_fresh(room: HostRoom) -> HostRoom:
    return HostRoom(room.name, room.cpus, room.memory, room.gpus)


@settings(max_examples=150, deadline=None)
@given(clusters())
def test_nothing_is_given_twice_and_nothing_that_is_not_there(
    case: tuple[Snapshot, list[Ask]],
) -> None:
    snapshot, asks = case
    decided = plan(snapshot, asks)
    assert decided == plan(snapshot, asks), "not deterministic"
    assert sorted([*where(decided), *why(decided)]) == sorted(a.workspace for a in asks)
    assert all(why(decided).values())
    hosts = {h.name: h for h in snapshot.hosts}
    by_name = {a.workspace: a for a in asks}
    holders: dict[str, set[str]] = {}
    use: dict[tuple[str, str], tuple[float, int]] = {}
    placed_owner = {(p.workspace, p.host) for p in decided.placements}
    for lease in snapshot.taken:
        for gpu in lease.gpus:
            holders.setdefault(gpu, set()).add(lease.workspace)
        if not (lease.owner and (lease.workspace, lease.host) in placed_owner):
            use[(lease.workspace, lease.host)] = (lease.cpus, lease.memory)
    for p in decided.placements:
        flavor, room = by_name[p.workspace].flavor, hosts[p.host]
        assert room.usable
        assert len(p.gpus) == len(set(p.gpus)) == flavor.gpus
        assert set(p.gpus) <= {g.uuid for g in room.gpus if g.model == flavor.gpu_model}
        for gpu in p.gpus:
            holders.setdefault(gpu, set()).add(p.workspace)
        before = use.get((p.workspace, p.host), (0.0, 0))
        use[(p.workspace, p.host)] = (
            max(before[0], flavor.cpus), max(before[1], flavor.memory),
        )  # fmt: skip
    assert all(len(who) == 1 for who in holders.values()), holders
    for name, room in hosts.items():
        on_it = [u for (_, h), u in use.items() if h == name]
        if any(p.host == name for p in decided.placements):
            assert sum(c for c, _ in on_it) <= room.cpus + 1e-6
            assert sum(m for _, m in on_it) <= room.memory


@settings(max_examples=60, deadline=None)
@given(clusters())
def test_whoever_is_first_is_never_worse_off_for_those_behind(
    case: tuple[Snapshot, list[Ask]],
) -> None:
    snapshot, asks = case
    alone = where(plan(snapshot, asks[:1]))
    together = where(plan(snapshot, asks))
    assert together.get(asks[0].workspace) == alone.get(asks[0].workspace)
