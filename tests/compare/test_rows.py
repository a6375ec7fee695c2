"""Which rows count, and how they are kept."""
import json

import pytest
from made_up import FAR, NEAR, SMT, cell, row
from rows import Store, read_rows, state_of


@pytest.mark.parametrize("before, after, state", [
    (0, 0, "none"), (25, 26, "smt"), (50, 60, "near"), (245, 260, "far"), (109, 112, "moved"),
    (50, 245, "moved"), (245, 50, "moved"), (25, 50, "moved"), (0, 50, "moved"), (50, 0, "moved"),
    (60, 95, "moved"), (95, 60, "moved"), (120, 240, "moved"), (60, 90, "near"),
])
def test_the_line_tells_the_state(before, after, state):
    assert state_of(before, after) == state


@pytest.mark.parametrize("made, counts", [
    (row("plait", 1.0), True), (row("plait", 1.0, FAR), True), (row("plait", 1.0, SMT), True),
    (row("plait", 1.0, NEAR, FAR), False), (row("plait", 1.0, right=False), False),
    (row("plait", 0.0, error="died"), False),
])
def test_rows_that_count(made, counts):
    assert made.counts == counts


def test_rows_come_back_from_the_file(tmp_path):
    rows = [row("plait", 1.5), row("mpich", 2.5, FAR, turn=1), row("plait", 0.7, memory="registered")]
    store = Store(tmp_path / "deep" / "rows.jsonl")
    for one in rows:
        store.add(one)
    assert read_rows(store.path) == rows


def test_an_interrupted_run_goes_on(tmp_path):
    path = tmp_path / "rows.jsonl"
    store = Store(path)
    store.add(row("plait", 1.0))
    store.add(row("mpich", 2.0))
    path.write_text(path.read_text()[:-20])  # cut off in the middle of the second row
    store = Store(path, resume=True)
    assert [one.peer for one in store.rows] == ["plait"]
    store.add(row("mpich", 3.0))
    assert [one.time_us for one in read_rows(path)] == [1.0, 3.0]


def test_a_new_run_forgets_the_old_one(tmp_path):
    Store(tmp_path / "rows.jsonl").add(row("plait", 1.0))
    assert Store(tmp_path / "rows.jsonl").rows == []
    assert read_rows(tmp_path / "rows.jsonl") == []


@pytest.mark.parametrize("line", ["", "{", "[]", "7", json.dumps({"peer": "plait"}),
                                  json.dumps({"peer": "plait", "cell": {"ranks": 2}, "memory": "private", "turn": 0}),
                                  json.dumps({"peer": "plait", "cell": vars(cell()), "memory": "private", "turn": 0,
                                              "what": 1})])
def test_lines_that_are_no_rows_are_left_out(tmp_path, line):
    (tmp_path / "rows.jsonl").write_text(line + "\n")
    assert read_rows(tmp_path / "rows.jsonl") == []
