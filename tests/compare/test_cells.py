"""Which cells there are, and how much memory they take."""
from cells import Cell, all_cells, cache_size, memory_need, pool_size, size_text

MIB = 1 << 20


def cells(ranks=(2,), collectives=("all_reduce",), types=("float32",), sizes=(8,), caches=("warm",), cache=32 * MIB):
    return all_cells(ranks, collectives, types, sizes, caches, cache)


def test_a_barrier_has_no_size_and_no_cache():
    assert cells(collectives=["barrier"], sizes=[8, 64], caches=["warm", "cold"], types=["float32", "bfloat16"]) == [
        Cell(2, "barrier", "float32", 0, "warm")]


def test_no_rank_goes_without_an_element():
    assert [cell.bytes for cell in cells([8], ["all_gather"], sizes=[8, 16, 64])] == [32, 64]
    assert [cell.bytes for cell in cells([8], ["all_reduce"], sizes=[8])] == [8]


def test_bfloat16_only_where_it_is_summed():
    found = cells(collectives=["all_reduce", "broadcast"], types=["float32", "bfloat16"])
    assert [(cell.collective, cell.type) for cell in found] == [
        ("all_reduce", "float32"), ("all_reduce", "bfloat16"), ("broadcast", "float32")]


def test_large_buffers_are_cold_anyway():
    found = cells(sizes=[MIB, 64 * MIB], caches=["warm", "cold"])
    assert [(cell.bytes, cell.caches) for cell in found] == [(MIB, "warm"), (MIB, "cold"), (64 * MIB, "warm")]


def test_memory():
    warm, cold = Cell(4, "all_reduce", "float32", MIB, "warm"), Cell(4, "all_reduce", "float32", MIB, "cold")
    assert memory_need(warm, 32 * MIB) == 4 * MIB
    assert memory_need(cold, 48 * MIB) == 4 * pool_size(cold, 48 * MIB) == 4 * 96 * MIB
    assert memory_need(Cell(2, "all_to_all", "float32", MIB, "warm"), 0) == 4 * MIB


def test_size_text():
    assert [size_text(size) for size in (0, 8, 1024, 1536, MIB, 1 << 30)] == [
        "0 B", "8 B", "1 KiB", "1536 B", "1 MiB", "1 GiB"]


def test_the_largest_cache_counts(tmp_path):
    for index, text in enumerate(("32K", "1024K", "32M", "odd")):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(text + "\n")
    assert cache_size(tmp_path) == 32 * MIB
    assert cache_size(tmp_path / "nothing") == 0
