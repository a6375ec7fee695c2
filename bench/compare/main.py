"""compare: Plait beside its peers. Prepares them, measures, reports."""
import datetime
import json
import os
import signal
import sys
from pathlib import Path

import options as command_line
import report
from cells import all_cells, cache_size
from peers import ROOT, Workshop, prepare
from progress import Progress, duration
from ratios import entries_of, geometric_mean, ratios_of
from rows import Store, read_rows
from run import Run

README_PLOT = ROOT / "docs" / "images" / "compare.svg"


def first_threads(cpus):
    """One hardware thread of each core first, as ranks are bound to them in this order."""
    def first_of(cpu):
        path = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        return int(path.read_text().replace("-", ",").split(",")[0]) if path.exists() else cpu
    return sorted(cpus, key=lambda cpu: (first_of(cpu) != cpu, cpu))


def chosen_cells(options, cache):
    cells = all_cells(options.ranks, options.collectives, options.types, options.sizes, options.caches, cache)
    if options.quick and options.ranks == [2]:
        cells += all_cells([4], [name for name in options.collectives if name == "all_reduce"], options.types,
                           [8, 65536, 1 << 20], options.caches, cache)
    return cells


def go_on(arguments):
    """Turns SIGTERM into an end as orderly as Ctrl-C's."""
    def interrupt(_number, _frame):
        raise KeyboardInterrupt
    signal.signal(signal.SIGTERM, interrupt)
    return arguments


def measure(options, peers, missing):
    cache = cache_size()
    cells = chosen_cells(options, cache)
    store = Store(options.output / "rows.jsonl", options.resume)
    total = options.turns * len(cells) * (len(peers) + 1)  # Plait's rows come with private and registered memory
    run = Run(options, peers, cells, store, Progress(total), first_threads(os.sched_getaffinity(0)), cache)
    print(f"{len(cells)} cells, {len(peers)} programs, {options.turns} turns: {total} rows of about "
          f"{options.seconds} s", flush=True)
    complete, interrupted = False, False
    try:
        complete = run.go()
        if not complete:
            run.note(f"stopped after {duration(options.limit_s)} (--minutes): --resume goes on")
    except KeyboardInterrupt:
        interrupted = True
        run.note("interrupted: the report has what was measured so far, --resume goes on")
    run.progress.clear()
    facts = {"date": datetime.datetime.now().strftime("%Y-%m-%d %H:%M"), "machine": report.machine(),
             "versions": run.versions, "missing": missing, "notes": run.notes, "complete": complete}
    (options.output / "facts.json").write_text(json.dumps(facts, indent=1), encoding="utf-8")
    return store.rows, facts, interrupted


def stored(options):
    """Rows and facts of an earlier run; exits with a sentence if there are none."""
    facts = options.output / "facts.json"
    rows = read_rows(options.output / "rows.jsonl")
    if not rows or not facts.exists():
        sys.exit(f"compare: no rows in {options.output}: --report needs a run first")
    return rows, json.loads(facts.read_text(encoding="utf-8")), False


def draw(options, entries, facts):
    try:
        import plots
    except ImportError:
        print("matplotlib is not installed, so there are no plots")
        return
    plots.write(options.output, entries)
    if options.readme:
        note = facts["machine"]["cpu"]
        if plots.write_readme(README_PLOT, entries, note):
            print(f"wrote {README_PLOT}")
        else:
            print("--readme: no cells of 2 ranks, float32 and warm caches to draw")


def tell(options, entries):
    for state in dict.fromkeys(entry.state for entry in entries):
        ratios = ratios_of(entries, state=state)
        if ratios:
            print(f"cores {state}: geometric mean of Plait / best peer {geometric_mean(ratios):.2f} over "
                  f"{len(ratios)} cells, {sum(ratio > 1 for ratio in ratios)} of them above 1")
    print(f"summary, tables and plots: {options.output}")


def main():
    options = go_on(command_line.parse(sys.argv[1:]))
    try:
        options.output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"compare: can't write to {options.output}: {error.strerror}")
    if options.report_only:
        rows, facts, interrupted = stored(options)
    else:
        shop = Workshop(options.work, install=not options.quick, ucc=options.ucc,
                        log=lambda line: print(line, flush=True))
        try:
            peers, missing = prepare(options.peers, shop)
        except KeyboardInterrupt:
            sys.exit("compare: interrupted while preparing the peers; nothing was measured")
        for name, why in missing.items():
            print(f"{name}: not measured. {why}", flush=True)
        if "plait" in missing:
            sys.exit("compare: without Plait there is nothing to compare")
        rows, facts, interrupted = measure(options, peers, missing)
    entries = entries_of(rows)
    report.write(options.output, rows, entries, facts)
    draw(options, entries, facts)
    tell(options, entries)
    sys.exit(130 if interrupted else 0)


if __name__ == "__main__":
    main()
