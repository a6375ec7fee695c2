"""The loop itself: Plait's program, as a build has left it, answers with rows that make sense."""
import sys
from types import SimpleNamespace

import pytest
from cells import COLLECTIVES
from conftest import ROOT
from session import PeerFailed, Session

PROGRAMS = [ROOT / "build" / preset / "bench" / "compare" / "compare-plait" for preset in ("dev", "release")]
PROGRAM = next((program for program in PROGRAMS if program.exists()), None)
pytestmark = pytest.mark.skipif(not PROGRAM, reason="compare-plait is not built: cmake --build --preset dev")


def start(ranks):
    peer = SimpleNamespace(name="plait", environment={}, command=lambda ranks, arguments: [
        sys.executable, str(ROOT / "bench" / "compare" / "ranks.py"), str(ranks), str(PROGRAM), *arguments])
    return Session(peer, ranks, [0, 1])


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_rows_are_right(ranks):
    session = start(ranks)
    try:
        for order in sorted(session.can):
            for size, pool in ((4 * ranks, 0), (40_000, 1 << 20), (4 << 20, 0)):
                row = session.measure(f"{order} {size} {pool} 0.004", 60)
                assert row["right"], order
                assert 0 < row["least_us"] <= row["time_us"] <= row["most_us"], order
                assert row["spans"] >= 1 and row["iterations"] >= 1
                assert row["line_before_ns"] >= 0 and row["line_after_ns"] >= 0
        assert {order.split()[0] for order in session.can} == set(COLLECTIVES)
    finally:
        session.close()
    assert session.process.returncode == 0


def test_a_rank_that_dies_is_told():
    session = start(2)
    try:
        with pytest.raises(PeerFailed, match="no such name: all_rotate"):
            session.measure("all_rotate float32 private 8 0 0.01", 60)
    finally:
        session.close()
