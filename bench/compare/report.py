"""What comes out of a run: tables as text, JSON and CSV, and a summary of one page."""
import csv
import json
import os
import platform
from collections import Counter
from dataclasses import asdict
from pathlib import Path

from cells import CACHES, TYPES, size_text
from ratios import WHOLE_GAIN, contender_of, geometric_mean, ratios_of, worst
from rows import STATES

WORST = 10


def machine():
    """What the numbers depend on, in a few words each."""
    model, memory = "?", "?"
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
    for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("MemTotal"):
            memory = f"{int(line.split()[1]) >> 20} GiB"
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "memory": memory,
            "kernel": platform.release(), "load": f"{os.getloadavg()[1]:.1f} (5 minutes)"}


def microseconds(time_us):
    if time_us is None:
        return "-"
    return f"{time_us:.2f}" if time_us < 10 else f"{time_us:.1f}" if time_us < 100 else f"{time_us:,.0f}"


def ratio_text(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


# ------------------------------------------------------------------ tables

def table_text(entries, contenders):
    """Blocks of one collective, count of ranks, type, cache state and state of the cores."""
    lines, block = [], None
    for entry in entries:
        cell = entry.cell
        if block != (cell.ranks, cell.collective, cell.type, cell.caches, entry.state):
            block = (cell.ranks, cell.collective, cell.type, cell.caches, entry.state)
            lines += ["", f"# {cell.collective}, {cell.ranks} ranks, {cell.type}, caches {cell.caches}, "
                          f"cores {entry.state}; microseconds; ratio: Plait / best peer",
                      "# " + f"{'size':>8}" + "".join(f"{name:>19}" for name in contenders)
                      + f"{'best peer':>17}{'ratio':>7}{'registered':>12}"]
        lines.append(f"{size_text(cell.bytes):>10}"
                     + "".join(f"{microseconds(entry.times_us.get(name)):>19}" for name in contenders)
                     + f"{entry.best_peer or '-':>17}{ratio_text(entry.ratio()):>7}"
                     + f"{ratio_text(entry.ratio('registered')):>12}")
    return "\n".join(lines).lstrip("\n") + "\n"


def contenders_of(entries):
    """In the order of the peers' table; Plait first, then Plait with registered memory."""
    names = dict.fromkeys(WHOLE_GAIN.values())
    for entry in entries:
        names |= dict.fromkeys(entry.times_us)
    return [name for name in names if any(name in entry.times_us for entry in entries)]


def entry_record(entry):
    return asdict(entry.cell) | {
        "state": entry.state, "times_us": entry.times_us, "turns": entry.turns, "best_peer": entry.best_peer,
        "ratio": entry.ratio(), "ratio_registered": entry.ratio("registered")}


def write_csv(path, entries, contenders):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["ranks", "collective", "type", "bytes", "caches", "state", "best_peer", "ratio",
                         "ratio_registered", *(f"{name}_us" for name in contenders)])
        for entry in entries:
            record = entry_record(entry)
            writer.writerow([record[name] for name in ("ranks", "collective", "type", "bytes", "caches", "state",
                                                       "best_peer", "ratio", "ratio_registered")]
                            + [entry.times_us.get(name, "") for name in contenders])


# ----------------------------------------------------------------- summary

def mean_rows(entries, memory):
    """A line for each count of ranks, type and cache state: the geometric mean in each state of the cores."""
    states = [state for state in STATES if any(entry.state == state for entry in entries)]
    lines = [f"| ranks | type | caches | {' | '.join(states)} |", "|---|---|---|" + "---:|" * len(states)]
    for ranks in sorted({entry.cell.ranks for entry in entries}):
        for type in TYPES:
            for caches in CACHES:
                found = [ratios_of(entries, memory, ranks=ranks, type=type, caches=caches, state=state)
                         for state in states]
                if any(found):
                    cells = [f"{geometric_mean(ratios):.2f} ({len(ratios)} cells, {sum(r > 1 for r in ratios)} above 1)"
                             if ratios else "-" for ratios in found]
                    lines.append(f"| {ranks} | {type} | {caches} | {' | '.join(cells)} |")
    return lines if len(lines) > 2 else ["No cell has both a row of Plait and one of a peer in the same state."]


def worst_lines(entries):
    lines = []
    for entry in worst(entries, WORST):
        best = entry.best_peer
        lines.append(f"- {entry.ratio():.2f}: {entry.cell.title()}, cores {entry.state}: "
                     f"{microseconds(entry.times_us['plait'])} us, {best} {microseconds(entry.times_us[best])} us")
    return lines or ["- none"]


def trouble_lines(rows, notes):
    lines = [f"- WRONG ANSWER: {contender_of(row)}, {row.cell.title()}" for row in rows if not row.right]
    lines += [f"- no time: {row.peer}, {row.cell.title()}: {row.error}" for row in rows if row.error]
    return [*dict.fromkeys(lines + [f"- {note}" for note in notes])] or ["- none"]


def row_counts(rows):
    states = Counter(row.state for row in rows if not row.error)
    thrown = sum(row.tries - 1 for row in rows) + states.pop("moved", 0)
    held = ", ".join(f"{states[state]} {state}" for state in STATES if states[state])
    return f"{len(rows)} rows: {held or 'none in a steady state'}. Thrown away because the cores moved: {thrown}."


def summary(rows, entries, facts):
    machine_line = ", ".join(f"{name} {value}" for name, value in facts["machine"].items())
    versions = [f"- {name}: {version}" for name, version in facts["versions"].items()]
    missing = [f"- {name}: not measured. {why}" for name, why in facts["missing"].items()]
    lines = ["# Plait beside its peers", "", facts["date"] + ("" if facts["complete"] else
             ". **Ended before all was measured**"), "", f"Machine: {machine_line}.", "", row_counts(rows), "",
             "## Geometric mean of Plait's time over the best peer's", "", "Private memory:", "",
             *mean_rows(entries, "private"), ""]
    if any(row.memory == "registered" for row in rows):
        lines += ["Plait with registered memory, peers with private:", "", *mean_rows(entries, "registered"), ""]
    lines += [f"## The {WORST} cells where Plait does worst", "", *worst_lines(entries), "",
              "## Peers", "", *versions, *missing, "", "## Trouble", "", *trouble_lines(rows, facts["notes"]), "",
              "How to read this: docs/compare.md. All times: table.txt, table.csv, table.json; rows.jsonl has every row."]
    return "\n".join(lines) + "\n"


def write(folder, rows, entries, facts):
    contenders = contenders_of(entries)
    (folder / "table.txt").write_text(table_text(entries, contenders), encoding="utf-8")
    (folder / "table.json").write_text(
        json.dumps(facts | {"entries": [entry_record(entry) for entry in entries]}, indent=1), encoding="utf-8")
    write_csv(folder / "table.csv", entries, contenders)
    (folder / "summary.md").write_text(summary(rows, entries, facts), encoding="utf-8")
