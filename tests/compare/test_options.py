"""What can be asked, and what is said to what can't."""
import options
import pytest


@pytest.mark.parametrize("arguments, sentence", [
    (["--peers", "mpicc"], "'mpicc' is none of: plait, intel-mpi"),
    (["--peers", ","], "nothing is named"),
    (["--collectives", "all_reduce,scan"], "'scan' is none of: all_reduce"),
    (["--types", "f8"], "'f8' is none of: float32, bfloat16"),
    (["--ranks", "0"], "'0' is no whole number from 1 to 16"),
    (["--ranks", "2,x"], "'x' is no whole number"),
    (["--ranks", "17"], "'17' is no whole number"),
    (["--sizes", "8,3"], "multiples of 4"),
    (["--sizes", "8,1Q"], "'1Q' is no size"),
    (["--sizes", "2G"], "2G: sizes are"),
    (["--sizes", "-8"], "'-8' is no size"),
    (["--turns", "0"], "'0' is no whole number from 1 to 100"),
    (["--seconds", "0"], "'0' is no number above 0"),
    (["--seconds", "nan"], "'nan' is no number above 0"),
    (["--minutes", "soon"], "'soon' is no number above 0"),
    (["--ucc", "/nowhere/at/all"], "there is no folder /nowhere/at/all"),
    (["--report", "--resume"], "--report measures nothing"),
    (["--quickly"], "unrecognized arguments: --quickly"),
    (["--qui"], "unrecognized arguments: --qui"),
])
def test_bad_options_get_a_sentence(capsys, arguments, sentence):
    with pytest.raises(SystemExit) as end:
        options.parse([f"{arguments[0]}={arguments[1]}"] if arguments[-1] == "-8" else arguments)
    assert end.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_whole_comparison_is_the_default():
    given = options.parse([])
    assert given.ranks == [1, 2, 4, 8]
    assert (given.sizes[0], given.sizes[-1]) == (8, 256 << 20)
    assert given.types == ["float32", "bfloat16"] and given.caches == ["warm", "cold"]
    assert given.peers[0] == "plait" and "openmpi-xhc" not in given.peers and given.limit_s is None


def test_quick_is_short():
    given = options.parse(["--quick"])
    assert given.limit_s <= 240 and given.ranks == [2] and given.types == ["float32"]


def test_what_is_said_holds_in_a_quick_run_too():
    given = options.parse(["--quick", "--ranks", "4,2", "--sizes", "64K,8,8", "--peers", "Intel_MPI", "--minutes", "1"])
    assert (given.ranks, given.sizes, given.limit_s) == ([2, 4], [8, 65536], 60)
    assert given.peers == ["plait", "intel-mpi"]


@pytest.mark.parametrize("text, size", [("8", 8), ("64K", 65536), ("1m", 1 << 20), ("4 MiB", 4 << 20), ("1G", 1 << 30)])
def test_sizes(text, size):
    assert options.size(text) == size


def test_variants_and_ucc_come_when_asked_for(tmp_path):
    assert options.parse(["--all-variants"]).peers[-2:] == ["openmpi-pinned", "openmpi-xhc"]
    assert "ucc" in options.parse(["--peers", "mpich", "--ucc", str(tmp_path)]).peers
