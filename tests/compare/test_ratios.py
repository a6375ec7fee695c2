"""Ratios are formed between rows of one state, from medians, and against the best peer of that state."""
import pytest
from made_up import FAR, NEAR, cell, row
from ratios import entries_of, geometric_mean, ratios_of, worst


def only(rows):
    entries = entries_of(rows)
    assert len(entries) == 1
    return entries[0]


def test_the_best_peer_is_the_measure():
    entry = only([row("plait", 2.0), row("mpich", 8.0), row("intel-mpi", 4.0)])
    assert (entry.best_peer, entry.ratio()) == ("intel-mpi", 0.5)


def test_medians_over_turns():
    rows = [row("plait", time, turn=turn) for turn, time in enumerate((2.0, 90.0, 3.0))]
    rows += [row("mpich", time, turn=turn) for turn, time in enumerate((6.0, 1.0, 7.0))]
    assert only(rows).ratio() == pytest.approx(0.5)


def test_states_do_not_mix():
    """The peer is seen far only and Plait near only: there is nothing to compare."""
    entries = entries_of([row("plait", 1.0, NEAR), row("mpich", 100.0, FAR)])
    assert [(entry.state, entry.ratio()) for entry in entries] == [("far", None), ("near", None)]


def test_a_ratio_for_each_state():
    entries = entries_of([row("plait", 1.0, NEAR), row("mpich", 2.0, NEAR), row("plait", 9.0, FAR),
                          row("mpich", 12.0, FAR)])
    assert [(entry.state, entry.ratio()) for entry in entries] == [("far", 0.75), ("near", 0.5)]


@pytest.mark.parametrize("bad", [row("mpich", 1.0, right=False), row("mpich", 1.0, NEAR, FAR),
                                 row("mpich", 0.0, error="died")])
def test_rows_that_do_not_count_are_no_measure(bad):
    entry = only([row("plait", 2.0), row("intel-mpi", 4.0), bad])
    assert (entry.best_peer, entry.ratio()) == ("intel-mpi", 0.5)


def test_a_wrong_answer_of_plait_gives_no_ratio():
    assert only([row("plait", 1.0, right=False), row("mpich", 2.0)]).ratio() is None


def test_registered_memory_is_a_contender_of_its_own():
    entry = only([row("plait", 2.0), row("plait", 1.0, memory="registered"), row("mpich", 4.0)])
    assert (entry.best_peer, entry.ratio(), entry.ratio("registered")) == ("mpich", 0.5, 0.25)


@pytest.mark.parametrize("values, mean", [([], None), ([None], None), ([0.25, 4], 1), ([0.5, None, 0.5], 0.5)])
def test_geometric_mean(values, mean):
    assert geometric_mean(values) == (None if mean is None else pytest.approx(mean))


def test_chosen_ratios_and_the_worst():
    rows = []
    for ranks, time in ((2, 1.0), (4, 3.0), (8, 2.0)):
        rows += [row("plait", time, where=cell(ranks)), row("mpich", 2.0, where=cell(ranks))]
    entries = entries_of(rows)
    assert ratios_of(entries, ranks=4) == [1.5]
    assert ratios_of(entries, caches="cold") == []
    assert [entry.cell.ranks for entry in worst(entries, 2)] == [4, 8]
