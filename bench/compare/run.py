"""The run: turn by turn and cell by cell, each peer in its turn; rows whose cores moved are measured again."""
import time
from dataclasses import dataclass, field

from cells import MEMORIES, TYPES, memory_need, pool_size
from rows import Row
from session import PeerFailed, Session

ROW_LIMIT_S = 90
PATIENCE_S = 20      # a row that took longer is the peer's last of this collective: larger ones would take minutes
FAILURES_MOST = 3    # of one peer with so many ranks in a turn
MEMORY_SHARE = 0.7   # of what is available may go to buffers


def available_memory(path="/proc/meminfo"):
    """Bytes to be had without swapping."""
    with open(path, encoding="ascii") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 0


@dataclass
class Run:
    options: object
    peers: list
    cells: list
    store: object
    progress: object
    cpus: list
    cache: int            # bytes of the largest
    open_session: object = Session
    versions: dict = field(default_factory=dict)
    notes: list = field(default_factory=list)
    sessions: dict = field(default_factory=dict)
    failures: dict = field(default_factory=dict)
    too_slow: dict = field(default_factory=dict)  # (peer, ranks, collective) -> bytes from which on it is skipped
    thrown: int = 0
    deadline: float = float("inf")

    def note(self, text):
        if text not in self.notes:
            self.notes.append(text)
            self.progress.say(text)

    def go(self):
        """Measures what is not stored yet. False when the time was up before all was done."""
        if self.options.limit_s:
            self.deadline = time.monotonic() + self.options.limit_s
        try:
            return all(self.measure_turn(turn, ranks) for turn in range(self.options.turns)
                       for ranks in sorted({cell.ranks for cell in self.cells}))
        finally:
            self.close_sessions(patient=False)

    def measure_turn(self, turn, ranks):
        """All cells of one count of ranks; the programs of all peers stay, asleep while it's not their turn."""
        self.failures.clear()
        first = turn % len(self.peers)  # whoever comes first may find other caches than the rest: take turns
        peers = self.peers[first:] + self.peers[:first]
        for cell in self.cells:
            if cell.ranks != ranks:
                continue
            for peer in peers:
                if time.monotonic() > self.deadline:
                    return False
                self.measure_peer(peer, cell, turn)
        self.close_sessions()
        return True

    def measure_peer(self, peer, cell, turn):
        for memory in MEMORIES if peer.name == "plait" else MEMORIES[:1]:
            row = Row(peer.name, cell, memory, turn)
            self.progress.step(f"turn {turn + 1}, {peer.title}: {cell.title()}")
            if row.key not in self.store.keys:
                self.measure_row(peer, row)
            self.progress.step(f"turn {turn + 1}, {peer.title}: {cell.title()}", 1)

    def measure_row(self, peer, row):
        session = self.may_start(peer, row) and self.session_of(peer, row)
        if not session or f"{row.cell.collective} {row.cell.type} {row.memory}" not in session.can:
            return
        began = time.monotonic()
        try:
            for tries in range(1, self.options.repeats + 2):
                vars(row).update(session.measure(self.order(row), ROW_LIMIT_S), tries=tries)
                if row.state != "moved":
                    break
                self.thrown += 1
        except PeerFailed as failure:
            self.fail(peer, row, str(failure))
        if time.monotonic() - began > PATIENCE_S * row.tries:
            self.too_slow[(peer.name, row.cell.ranks, row.cell.collective)] = row.cell.bytes
            self.note(f"{peer.name} took {time.monotonic() - began:.0f} s for {row.cell.title()}: "
                      "larger ones are skipped")
        self.store.add(row)

    def order(self, row):
        cell = row.cell
        size = cell.bytes or TYPES[cell.type]  # a barrier has no buffer, but the loop gives it a small one
        return (f"{cell.collective} {cell.type} {row.memory} {size} {pool_size(cell, self.cache)} "
                f"{self.options.seconds}")

    def may_start(self, peer, row):
        cell = row.cell
        if cell.bytes > self.too_slow.get((peer.name, cell.ranks, cell.collective), float("inf")):
            return False
        if self.failures.get((peer.name, cell.ranks), 0) >= FAILURES_MOST:
            return False
        need, have = memory_need(cell, self.cache), available_memory()
        if need > MEMORY_SHARE * have:
            self.note(f"{cell.title()} skipped: it needs {need >> 20} MiB of buffers, {have >> 20} MiB are available")
            return False
        return True

    def session_of(self, peer, row):
        key = (peer.name, row.cell.ranks)
        if key not in self.sessions:
            try:
                session = self.open_session(peer, row.cell.ranks, self.cpus, self.options.priority)
            except PeerFailed as failure:
                self.note(f"{failure}")
                self.failures[key] = FAILURES_MOST
                return None
            self.sessions[key] = session
            self.versions[peer.name] = session.version
        return self.sessions[key]

    def fail(self, peer, row, sentence):
        key = (peer.name, row.cell.ranks)
        row.error = sentence
        self.failures[key] = self.failures.get(key, 0) + 1
        self.note(f"{row.cell.title()}: {sentence}")
        self.sessions.pop(key).close(patient=False)

    def close_sessions(self, patient=True):
        while self.sessions:
            self.sessions.popitem()[1].close(patient)
