"""Ratios: Plait's time over the best peer's, formed only between rows of one state of the cores."""
import math
from dataclasses import dataclass, field
from statistics import median

PLAIT = "plait"
WHOLE_GAIN = {"private": "plait", "registered": "plait, registered"}


@dataclass
class Entry:
    """A cell in one state: a time of each contender, and what Plait's is of the best peer's."""
    cell: object
    state: str
    times_us: dict = field(default_factory=dict)  # contender -> median over turns
    turns: dict = field(default_factory=dict)     # contender -> rows behind that

    @property
    def best_peer(self):
        peers = {name: time for name, time in self.times_us.items() if not is_plait(name)}
        return min(peers, key=peers.get) if peers else None

    def ratio(self, memory="private"):
        mine, best = self.times_us.get(WHOLE_GAIN[memory]), self.best_peer
        return mine / self.times_us[best] if mine and best else None


def is_plait(contender):
    return contender in WHOLE_GAIN.values()


def contender_of(row):
    """Plait with registered memory is a contender of its own."""
    return WHOLE_GAIN["registered"] if row.memory == "registered" else row.peer


def entries_of(rows):
    """One entry for each cell and state that has rows which count, in the order of the cells."""
    groups = {}
    for row in rows:
        if row.counts:
            groups.setdefault((row.cell, row.state), {}).setdefault(contender_of(row), []).append(row.time_us)
    entries = []
    for (cell, state), times in sorted(groups.items(), key=lambda item: item[0]):
        entries.append(Entry(cell, state, {name: median(values) for name, values in times.items()},
                             {name: len(values) for name, values in times.items()}))
    return entries


def geometric_mean(values):
    values = [value for value in values if value]
    return math.exp(sum(math.log(value) for value in values) / len(values)) if values else None


def ratios_of(entries, memory="private", **wanted):
    """The ratios of the entries whose state and cell are as wanted: ranks=2, caches="warm", state="near"."""
    chosen = []
    for entry in entries:
        fields = {"state": entry.state} | vars(entry.cell)
        if entry.ratio(memory) and all(fields[name] == value for name, value in wanted.items()):
            chosen.append(entry.ratio(memory))
    return chosen


def worst(entries, count, memory="private"):
    """The cells where Plait does worst, the worst first."""
    rated = [entry for entry in entries if entry.ratio(memory)]
    return sorted(rated, key=lambda entry: -entry.ratio(memory))[:count]
