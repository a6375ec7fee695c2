"""Rows that nobody measured."""
from cells import Cell
from rows import Row

NEAR, FAR, SMT = 50.0, 240.0, 25.0


def cell(ranks=2, collective="all_reduce", type="float32", bytes=1024, caches="warm"):
    return Cell(ranks, collective, type, bytes, caches)


def row(peer, time_us, line=NEAR, after=None, memory="private", turn=0, where=None, **fields):
    return Row(peer, where or cell(), memory, turn, time_us=time_us, least_us=time_us, most_us=time_us, spans=15,
               iterations=10, line_before_ns=line, line_after_ns=line if after is None else after, **fields)
