"""What is measured: a cell is one collective of one size, type and cache state with so many ranks."""
from dataclasses import dataclass
from pathlib import Path

COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "barrier")
REDUCING = ("all_reduce", "reduce_scatter")
TYPES = {"float32": 4, "bfloat16": 2}
CACHES = ("warm", "cold")
MEMORIES = ("private", "registered")
LEAST_POOL = 64 << 20  # bytes
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, order=True)
class Cell:
    ranks: int
    collective: str
    type: str
    bytes: int   # of the bigger of a rank's buffers
    caches: str  # warm: one buffer, call after call; cold: more buffers than the caches hold, in turn

    def title(self):
        size = "" if self.collective == "barrier" else f" of {size_text(self.bytes)} {self.type}"
        return f"{self.collective.replace('_', '-')}{size}, {self.ranks} ranks, {self.caches} caches"


def size_text(size):
    for unit in ("G", "M", "K"):
        if size >= UNITS[unit] and size % UNITS[unit] == 0:
            return f"{size // UNITS[unit]} {unit}iB"
    return f"{size} B"


def cache_size(folder=Path("/sys/devices/system/cpu/cpu0/cache")):
    """Bytes of the largest cache; 0 where the system does not say."""
    sizes = [0]
    for file in folder.glob("index*/size"):
        text = file.read_text().strip()
        if text[:-1].isdigit() and text[-1] in UNITS:
            sizes.append(int(text[:-1]) * UNITS[text[-1]])
    return max(sizes)


def pool_size(cell, cache):
    """Bytes of buffers that a cell's calls rotate through; 0: one buffer."""
    return max(2 * cache, LEAST_POOL) if cell.caches == "cold" else 0


def memory_need(cell, cache):
    """Bytes of buffers of all ranks together."""
    buffer = cell.bytes * (2 if cell.collective == "all_to_all" else 1)
    return cell.ranks * (max(pool_size(cell, cache), 2 * buffer) if cell.caches == "cold" else buffer)


def is_worth_it(cell, cache):
    """Moved bytes are moved bytes, so bfloat16 only where it is summed; and large buffers are cold anyway."""
    if cell.type != "float32" and cell.collective not in REDUCING:
        return False
    return cell.caches == "warm" or (cell.collective != "barrier" and cell.bytes < max(2 * cache, LEAST_POOL))


def all_cells(ranks, collectives, types, sizes, caches, cache):
    """In the order of measurement: cells that are compared with each other lie close together."""
    cells = []
    for count in ranks:
        for collective in collectives:
            for type in types:
                for size in [0] if collective == "barrier" else sizes:
                    least = TYPES[type] * (count if collective not in ("all_reduce", "broadcast", "barrier") else 1)
                    bytes = max(size, least) if collective != "barrier" else 0
                    cells += [Cell(count, collective, type, bytes, state) for state in caches]
    return [cell for cell in dict.fromkeys(cells) if is_worth_it(cell, cache)]
