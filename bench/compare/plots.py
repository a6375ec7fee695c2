"""Plots of a run: time against size and the ratio against the best peer, one figure a collective and rank count."""
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402  (the backend comes first)
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator  # noqa: E402

from cells import size_text  # noqa: E402
from peers import PEERS, VARIANTS  # noqa: E402
from ratios import WHOLE_GAIN  # noqa: E402
from rows import STATES  # noqa: E402

TITLES = {"plait": "Plait", "plait, registered": "Plait, registered memory", "intel-mpi": "Intel MPI",
          "openmpi": "Open MPI 5", "openmpi-debian": "Open MPI 4 (Debian)", "mpich": "MPICH 5",
          "oneccl": "oneCCL", "ucc": "UCC", "gloo": "Gloo (PyTorch)",
          "openmpi-pinned": "Open MPI 5, memory kept", "openmpi-xhc": "Open MPI 5, xhc"}
PLAIT_COLOUR = "#c2185b"
# Distinct to colour-blind eyes as well, and paler than Plait's.
PEER_COLOURS = ["#0072b2", "#e69f00", "#009e73", "#56b4e9", "#8c6bb1", "#7f7f7f", "#a6761d", "#b2b200", "#4d4d4d"]
COLOURS = {name: colour for name, colour in zip([*list(PEERS)[1:], *VARIANTS], PEER_COLOURS)}
STYLE = {"figure.facecolor": "white", "axes.facecolor": "white", "axes.edgecolor": "#999999", "axes.grid": True,
         "grid.color": "#e6e6e6", "axes.spines.top": False, "axes.spines.right": False, "font.size": 9,
         "axes.titlesize": 10, "legend.frameon": False, "svg.fonttype": "none", "svg.hashsalt": "compare"}
README_RANGE = (1 / 8, 16)  # times the best peer; what is slower than that is off the plot
README_COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter")


def line_style(contender):
    if contender in WHOLE_GAIN.values():
        return {"color": PLAIT_COLOUR, "linewidth": 2.4, "marker": "o", "markersize": 4, "zorder": 3,
                "linestyle": "-" if contender == "plait" else "--"}
    return {"color": COLOURS.get(contender, "#4d4d4d"), "linewidth": 1.3, "marker": ".", "markersize": 5}


def choose(entries, **wanted):
    return [entry for entry in entries
            if all(({"state": entry.state} | vars(entry.cell))[name] == value for name, value in wanted.items())]


def size_axis(axes, entries):
    sizes = sorted({entry.cell.bytes for entry in entries})
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_locator(FixedLocator(sizes))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda size, _: size_text(int(size)).replace("iB", "")))
    close = any(larger < 8 * smaller for smaller, larger in zip(sizes, sizes[1:]))
    axes.tick_params(axis="x", rotation=40 if close else 0)


def time_text(time_us):
    return f"{time_us:g} µs" if time_us < 1e3 else f"{time_us / 1e3:g} ms" if time_us < 1e6 else f"{time_us / 1e6:g} s"


def time_axis(axes):
    axes.set_yscale("log")
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda time, _: time_text(time)))


def draw_times(axes, entries):
    for contender in [*WHOLE_GAIN.values(), *COLOURS]:
        points = [(entry.cell.bytes, entry.times_us[contender]) for entry in entries if contender in entry.times_us]
        if points:
            axes.plot(*zip(*points), label=TITLES.get(contender, contender), **line_style(contender))
    size_axis(axes, entries)
    time_axis(axes)


def draw_relative(axes, entries):
    """Everybody's time over the best peer's: Plait below 1 is ahead of all."""
    for contender in [*WHOLE_GAIN.values(), *COLOURS]:
        points = [(entry.cell.bytes, entry.times_us[contender] / entry.times_us[entry.best_peer])
                  for entry in entries if contender in entry.times_us and entry.best_peer]
        if points:
            axes.plot(*zip(*points), label=TITLES.get(contender, contender), **line_style(contender))
    axes.axhline(1, color="#666666", linewidth=1)
    size_axis(axes, entries)
    ratio_axis(axes)
    axes.set_ylim(*README_RANGE)


def ratio_axis(axes):
    axes.set_yscale("log", base=2)
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))


def draw_ratios(axes, entries):
    """A line for each way of measuring: type, cache state, memory."""
    axes.axhline(1, color="#666666", linewidth=1)
    ways = [("float32", "warm", "private", "-"), ("float32", "cold", "private", ":"),
            ("bfloat16", "warm", "private", "-."), ("float32", "warm", "registered", "--")]
    for type, caches, memory, style in ways:
        points = [(entry.cell.bytes, entry.ratio(memory)) for entry in choose(entries, type=type, caches=caches)
                  if entry.ratio(memory)]
        if points:
            label = "registered memory" if memory == "registered" else f"{type}, caches {caches}"
            axes.plot(*zip(*points), label=label, color=PLAIT_COLOUR, linestyle=style, marker="o", markersize=3)
    size_axis(axes, entries)
    ratio_axis(axes)


def collective_title(collective):
    return collective.replace("_", "-").capitalize()


def draw_collective(entries, collective, ranks):
    """A column for each state of the cores: times above, ratios below."""
    states = [state for state in STATES if choose(entries, state=state)]
    figure, axes = plt.subplots(2, len(states), figsize=(max(7, 5.4 * len(states)), 7.2), squeeze=False,
                                height_ratios=(2, 1), sharex="col")
    for column, state in enumerate(states):
        here = choose(entries, state=state)
        times = choose(here, type="float32", caches="warm") or here
        draw_times(axes[0][column], times)
        draw_ratios(axes[1][column], here)
        axes[0][column].set_title(f"cores {state}" if state != "none" else "one core")
        axes[0][column].tick_params(labelbottom=True)
        axes[1][column].set_xlabel("bytes of the bigger buffer")
        if axes[1][column].get_legend_handles_labels()[0]:
            axes[1][column].legend(fontsize=7)
    axes[0][0].set_ylabel("time of a call (float32, caches warm)")
    axes[1][0].set_ylabel("Plait / best peer; below 1: ahead")
    axes[0][0].legend(fontsize=8)
    figure.suptitle(f"{collective_title(collective)}, {ranks} rank{'s' if ranks > 1 else ''}")
    figure.tight_layout()
    return figure


def draw_barriers(entries):
    """Bars: a barrier has no size to draw against."""
    groups = [(entry.cell.ranks, entry.state, entry) for entry in entries]
    names = [name for name in [*WHOLE_GAIN.values(), *COLOURS] if any(name in entry.times_us for entry in entries)]
    figure, axes = plt.subplots(figsize=(max(6, 2.2 * len(groups)), 4))
    width = 0.8 / max(1, len(names))
    for index, name in enumerate(names):
        places = [place + (index + 0.5) * width - 0.4 for place in range(len(groups))]
        axes.bar(places, [entry.times_us.get(name, 0) for _, _, entry in groups], width,
                 label=TITLES.get(name, name), color=line_style(name)["color"])
    axes.set_xticks(range(len(groups)), [f"{ranks} ranks, {state}" for ranks, state, _ in groups])
    time_axis(axes)
    axes.set_title("Barrier: time of a call")
    axes.legend(fontsize=8)
    figure.tight_layout()
    return figure


def save(figure, folder, name):
    for kind in ("svg", "png"):
        figure.savefig(folder / f"{name}.{kind}", dpi=110, metadata={"Date": None} if kind == "svg" else None)
    plt.close(figure)


def write(folder, entries):
    """All figures into `folder`/plots; returns their names."""
    folder = folder / "plots"
    folder.mkdir(parents=True, exist_ok=True)
    names = []
    with plt.rc_context(STYLE):
        for collective in dict.fromkeys(entry.cell.collective for entry in entries):
            if collective == "barrier":
                save(draw_barriers(choose(entries, collective="barrier")), folder, "barrier")
                names.append("barrier")
                continue
            for ranks in sorted({entry.cell.ranks for entry in choose(entries, collective=collective)}):
                name = f"{collective}-{ranks}-ranks"
                save(draw_collective(choose(entries, collective=collective, ranks=ranks), collective, ranks),
                     folder, name)
                names.append(name)
    return names


def fullest_state(entries):
    counts = {state: len(choose(entries, state=state)) for state in STATES}
    return max(counts, key=counts.get)


def write_readme(path, entries, note):
    """Four collectives between two ranks, in the state that has most cells. False when there are none."""
    entries = [entry for entry in choose(entries, ranks=2, type="float32", caches="warm")
               if entry.cell.collective in README_COLLECTIVES]
    state = fullest_state(entries)
    entries = choose(entries, state=state)
    if not entries:
        return False
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(2, 2, figsize=(9.6, 7.2), sharex=True, sharey=True)
        for place, collective in zip(axes.flat, README_COLLECTIVES):
            here = choose(entries, collective=collective)
            if here:
                draw_relative(place, here)
            place.set_title(collective_title(collective))
        handles = {label: handle for place in axes.flat
                   for handle, label in zip(*place.get_legend_handles_labels())}
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=4, fontsize=9)
        figure.suptitle(f"Time of a call over the best peer's: lower is faster, Plait below 1 is ahead of all\n"
                        f"2 ranks, float32, cores {state}, {note}", fontsize=10)
        figure.tight_layout(rect=(0, 0.08, 1, 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None})
        plt.close(figure)
    return True
