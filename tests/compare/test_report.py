"""Tables, summary and plots of made-up rows."""
import csv
import json

import pytest
import report
from made_up import FAR, NEAR, cell, row
from ratios import entries_of

FACTS = {"date": "2030-01-01 00:00", "machine": {"cpu": "Made Up", "cores": 2}, "complete": True,
         "versions": {"plait": "0.1.0", "mpich": "5"}, "missing": {"ucc": "none was given"}, "notes": ["a note"]}


def made_rows():
    rows = []
    for size, plait_us, mpich_us in ((8, 0.1, 0.2), (1024, 0.5, 0.4), (1 << 20, 40.0, 80.0)):
        for line in (NEAR, FAR):
            where = cell(bytes=size)
            rows += [row("plait", plait_us, line, where=where), row("mpich", mpich_us, line, where=where),
                     row("plait", plait_us / 2, line, where=where, memory="registered")]
    where = cell(collective="barrier", bytes=0)
    rows += [row("plait", 0.1, where=where), row("mpich", 0.4, where=where)]
    rows.append(row("gloo", 5.0, right=False, where=cell(bytes=8)))
    rows.append(row("mpich", 5.0, NEAR, FAR, where=cell(4), tries=4))
    rows.append(row("oneccl", 0, 0, where=cell(4), error="oneccl with 4 ranks gave no answer in 90 s"))
    return rows


@pytest.fixture(name="folder")
def written(tmp_path):
    rows = made_rows()
    report.write(tmp_path, rows, entries_of(rows), FACTS)
    return tmp_path


def test_the_text_table(folder):
    text = (folder / "table.txt").read_text()
    assert "# all_reduce, 2 ranks, float32, caches warm, cores near" in text
    assert "# all_reduce, 2 ranks, float32, caches warm, cores far" in text
    line = next(line for line in text.splitlines() if line.strip().startswith("1 KiB"))
    assert line.split() == ["1", "KiB", "0.50", "0.25", "0.40", "mpich", "1.25", "0.62"]
    assert "gloo" not in text, "a wrong answer has no time"


def test_json_and_csv_say_the_same(folder):
    entries = json.loads((folder / "table.json").read_text())["entries"]
    with open(folder / "table.csv", newline="", encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    assert len(entries) == len(lines) == 7
    for entry, line in zip(entries, lines):
        assert float(line["ratio"]) == entry["ratio"] and line["state"] == entry["state"]
        assert float(line["mpich_us"]) == entry["times_us"]["mpich"]
    assert entries[1] | {"times_us": 0, "turns": 0} == {
        "ranks": 2, "collective": "all_reduce", "type": "float32", "bytes": 8, "caches": "warm", "state": "near",
        "times_us": 0, "turns": 0, "best_peer": "mpich", "ratio": 0.5, "ratio_registered": 0.25}


def test_the_summary(folder):
    text = (folder / "summary.md").read_text()
    assert "23 rows: 12 near, 9 far. Thrown away because the cores moved: 4." in text
    assert "| 2 | float32 | warm | 0.53 (4 cells, 1 above 1) | 0.68 (3 cells, 1 above 1) |" in text
    assert "- 1.25: all-reduce of 1 KiB float32, 2 ranks, warm caches, cores far: 0.50 us, mpich 0.40 us" in text
    assert "WRONG ANSWER: gloo, all-reduce of 8 B float32" in text
    assert "no time: oneccl, all-reduce of 1 KiB float32, 4 ranks, warm caches: oneccl with 4 ranks gave no" in text
    assert "- ucc: not measured. none was given" in text and "- a note" in text
    assert "Ended before" not in text


def test_an_interrupted_run_says_so():
    assert "Ended before all was measured" in report.summary([], [], FACTS | {"complete": False})


def test_nothing_measured_is_a_report_too(tmp_path):
    report.write(tmp_path, [], [], FACTS)
    text = (tmp_path / "summary.md").read_text()
    assert "0 rows: none in a steady state" in text and "No cell has both" in text


@pytest.mark.parametrize("time_us, text", [(None, "-"), (0.123, "0.12"), (12.34, "12.3"), (1234.5, "1,234")])
def test_times(time_us, text):
    assert report.microseconds(time_us) == text


def test_plots(tmp_path):
    plots = pytest.importorskip("plots", exc_type=ImportError)
    entries = entries_of(made_rows())
    assert plots.write(tmp_path, entries) == ["all_reduce-2-ranks", "barrier"]
    for name in ("all_reduce-2-ranks", "barrier"):
        assert (tmp_path / "plots" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "MPICH 5" in (tmp_path / "plots" / f"{name}.svg").read_text()


def test_the_readme_plot_is_small_and_says_its_state(tmp_path):
    plots = pytest.importorskip("plots", exc_type=ImportError)
    target = tmp_path / "images" / "compare.svg"
    assert plots.write_readme(target, entries_of(made_rows()), "Made Up")
    assert "cores near" in target.read_text() and target.stat().st_size < 100_000
    assert not plots.write_readme(target, entries_of([row("plait", 1.0, where=cell(4))]), "Made Up")
