"""Rows: one measurement of one peer in one cell. How they are judged, stored as they come, and found again."""
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cells import Cell

# What one cache line costs one way, in nanoseconds, tells where the two cores are: two threads of a core, one
# last-level cache, or two of them.
SMT_BELOW_NS = 36
NEAR_BELOW_NS = 110
DRIFT_MOST = 1.5  # times, between the beginning and the end of a row, without leaving the state
STATES = ("smt", "near", "far", "none", "moved")


@dataclass
class Row:
    peer: str
    cell: Cell
    memory: str
    turn: int
    time_us: float = 0.0
    least_us: float = 0.0
    most_us: float = 0.0
    spans: int = 0
    iterations: int = 0
    line_before_ns: float = 0.0
    line_after_ns: float = 0.0
    right: bool = True
    tries: int = 1       # rows thrown away for this one, and itself
    error: str = ""      # there is no time, and this is why

    @property
    def state(self):
        return state_of(self.line_before_ns, self.line_after_ns)

    @property
    def counts(self):
        """Whether ratios may be formed from it."""
        return not self.error and self.right and self.state != "moved"

    @property
    def key(self):
        return (self.peer, self.cell, self.memory, self.turn)


def line_state(cost_ns):
    if cost_ns <= 0:
        return "none"  # one core, or none to be had: there is no line to speak of
    return "smt" if cost_ns < SMT_BELOW_NS else "near" if cost_ns < NEAR_BELOW_NS else "far"


def state_of(before_ns, after_ns):
    """near, far, smt or none when that holds for the whole row; "moved" when the cores moved meanwhile."""
    if line_state(before_ns) != line_state(after_ns):
        return "moved"
    low, high = sorted((before_ns, after_ns))
    return "moved" if high > low * DRIFT_MOST else line_state(before_ns)


class Store:
    """The rows of a run in a file, one JSON object a line, so that an interrupted run can go on."""

    def __init__(self, path, resume=False):
        self.path = Path(path)
        self.rows = read_rows(self.path) if resume else []
        self.keys = {row.key for row in self.rows}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        # A line that was cut off when the run ended must not stick to the next one.
        self.path.write_text("".join(encode(row) for row in self.rows))

    def add(self, row):
        self.rows.append(row)
        self.keys.add(row.key)
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(encode(row))


def encode(row):
    return json.dumps(asdict(row)) + "\n"


def read_rows(path):
    rows = []
    if not Path(path).exists():
        return rows
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        try:
            fields = json.loads(line)
            rows.append(Row(**(fields | {"cell": Cell(**fields["cell"])})))
        except (ValueError, TypeError, KeyError):
            continue  # cut off, or of another version: measured again
    return rows
