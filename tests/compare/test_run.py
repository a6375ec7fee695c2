"""The run with programs that are made up: what is repeated, skipped, given up, and where it goes on."""
import io
from types import SimpleNamespace

import pytest
import run as running
from made_up import FAR, NEAR, cell
from progress import Progress
from rows import Store
from session import PeerFailed

PLAIT, MPICH = SimpleNamespace(name="plait", title="Plait"), SimpleNamespace(name="mpich", title="MPICH")


class Program:
    """Answers orders with what a test puts in `answers`: pairs of line costs, or failures; steady ones afterwards."""
    answers, orders, opened, closed = {}, [], [], []

    @classmethod
    def reset(cls):
        cls.answers, cls.orders, cls.opened, cls.closed = {}, [], [], []

    def __init__(self, peer, ranks, _cpus, _priority):
        self.peer, self.version = peer, "1"
        self.can = {f"{collective} {type} private" for collective in ("all_reduce", "barrier")
                    for type in ("float32", "bfloat16")}
        if peer.name == "mpich":
            self.can -= {"all_reduce bfloat16 private"}
        self.opened.append((peer.name, ranks))

    def measure(self, order, _limit_s):
        self.orders.append((self.peer.name, order))
        answer = self.answers.get(self.peer.name, []).pop(0) if self.answers.get(self.peer.name) else (NEAR, NEAR)
        if isinstance(answer, BaseException):
            raise answer
        return {"time_us": 1.0, "least_us": 1.0, "most_us": 1.0, "spans": 15, "iterations": 1, "right": True,
                "line_before_ns": answer[0], "line_after_ns": answer[1]}

    def close(self, patient=True):
        self.closed.append(self.peer.name)


@pytest.fixture(name="make")
def maker(tmp_path):
    Program.reset()

    def make(cells, turns=1, repeats=3, limit_s=None, resume=False):
        options = SimpleNamespace(turns=turns, repeats=repeats, limit_s=limit_s, seconds=0.1, priority=False)
        return running.Run(options, [PLAIT, MPICH], cells, Store(tmp_path / "rows.jsonl", resume),
                           Progress(100, io.StringIO()), [0, 1], 1 << 25, open_session=Program)
    return make


def test_every_peer_has_its_turn(make):
    run = make([cell(bytes=8), cell(bytes=64)], turns=2)
    assert run.go()
    assert [name for name, _ in Program.orders] == ["plait", "mpich"] * 2 + ["mpich", "plait"] * 2
    assert Program.orders[0][1] == "all_reduce float32 private 8 0 0.1"
    assert Program.opened == [("plait", 2), ("mpich", 2)] + [("mpich", 2), ("plait", 2)]
    assert sorted(Program.closed) == ["mpich", "mpich", "plait", "plait"]


def test_rows_whose_cores_moved_are_measured_again(make):
    run = make([cell()])
    Program.answers = {"plait": [(NEAR, FAR), (FAR, NEAR), (FAR, FAR)]}
    run.go()
    plait = next(row for row in run.store.rows if row.peer == "plait")
    assert (plait.state, plait.tries, plait.counts, run.thrown) == ("far", 3, True, 2)


def test_but_not_for_ever(make):
    run = make([cell()], repeats=2)
    Program.answers = {"plait": [(NEAR, FAR)] * 10}
    run.go()
    plait = next(row for row in run.store.rows if row.peer == "plait")
    assert (plait.state, plait.tries, plait.counts) == ("moved", 3, False)


def test_what_a_peer_can_not_is_not_asked(make):
    make([cell(type="bfloat16")]).go()
    assert [name for name, _ in Program.orders] == ["plait"]


def test_a_peer_that_dies_is_started_again(make):
    run = make([cell(bytes=8), cell(bytes=64)])
    Program.answers = {"mpich": [PeerFailed("mpich with 2 ranks ended")]}
    assert run.go()
    assert Program.opened.count(("mpich", 2)) == 2
    assert [row.error for row in run.store.rows if row.peer == "mpich"] == ["mpich with 2 ranks ended", ""]
    assert any("mpich with 2 ranks ended" in note for note in run.notes)


def test_a_peer_that_dies_often_is_given_up(make):
    run = make([cell(bytes=size) for size in (8, 16, 32, 64, 128)])
    Program.answers = {"mpich": [PeerFailed("gone")] * 10}
    run.go()
    assert len([row for row in run.store.rows if row.peer == "mpich"]) == running.FAILURES_MOST
    assert len([row for row in run.store.rows if row.peer == "plait"]) == 5


def test_a_peer_that_does_not_start_leaves_the_others_alone(make):
    run = make([cell(bytes=8), cell(bytes=64)])

    def open_session(peer, *arguments):
        if peer is MPICH:
            raise PeerFailed("mpich with 2 ranks was not ready after 120 s")
        return Program(peer, *arguments)
    run.open_session = open_session
    assert run.go()
    assert [row.peer for row in run.store.rows] == ["plait", "plait"]
    assert run.notes.count("mpich with 2 ranks was not ready after 120 s") == 1


def test_larger_ones_are_skipped_after_a_slow_one(make, monkeypatch):
    monkeypatch.setattr(running, "PATIENCE_S", -1)
    run = make([cell(bytes=8), cell(bytes=64), cell(collective="barrier", bytes=0)])
    run.go()
    assert [order.split()[3] for name, order in Program.orders if name == "mpich"] == ["8", "4"]


def test_cells_without_memory_are_skipped(make, monkeypatch):
    monkeypatch.setattr(running, "available_memory", lambda: 1 << 20)
    run = make([cell(bytes=8), cell(bytes=1 << 20)])
    run.go()
    assert {order.split()[3] for _, order in Program.orders} == {"8"}
    assert any("2 MiB of buffers, 1 MiB are available" in note for note in run.notes)


def test_resuming_measures_what_is_missing(make):
    make([cell(bytes=8)]).go()
    Program.orders.clear()
    run = make([cell(bytes=8), cell(bytes=64)], resume=True)
    run.go()
    assert [order.split()[3] for _, order in Program.orders] == ["64", "64"]
    assert len(run.store.rows) == 4


def test_the_time_limit(make):
    run = make([cell(bytes=8)], limit_s=1e-9)
    assert not run.go()
    assert Program.orders == []


def test_an_interrupt_ends_all_programs(make):
    run = make([cell(bytes=8), cell(bytes=64)])
    Program.answers = {"mpich": [(NEAR, NEAR), KeyboardInterrupt()]}
    with pytest.raises(KeyboardInterrupt):
        run.go()
    assert sorted(Program.closed) == ["mpich", "plait"]

