"""A peer's program seen from the driver: its answers, its death, its silence, its end."""
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
from session import PeerFailed, Session

HERE = Path(__file__).resolve().parent
COMPARE = HERE.parents[1] / "bench" / "compare"
STANDIN = HERE / "standin.py"


def peer(behaviour="answer", **environment):
    return SimpleNamespace(name="standin", environment=environment, command=lambda ranks, arguments: [
        sys.executable, str(STANDIN), behaviour, *arguments])


def is_gone(pid):
    """Dead, or a zombie that nobody has reaped yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def wait_until_gone(pid, limit_s=10):
    deadline = time.monotonic() + limit_s
    while not is_gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return is_gone(pid)


def test_answers():
    session = Session(peer(), 2, [0, 1])
    assert session.version == "standin 1" and session.can == {"all_reduce float32 private"}
    assert session.measure("all_reduce float32 private 8 0 0.1", 10)["time_us"] == 8
    assert session.measure("all_reduce float32 private 64 0 0.1", 10)["time_us"] == 64
    session.close()
    assert is_gone(session.process.pid)


@pytest.mark.parametrize("behaviour, sentence", [
    ("refuse", "ended before it was ready (exit status 3): no such fabric"),
    ("die", "ended in a measurement (exit status 4): out of luck"),
])
def test_a_death_is_told_with_the_last_words(behaviour, sentence):
    with pytest.raises(PeerFailed, match="standin with 2 ranks") as failure:
        session = Session(peer(behaviour), 2, [0, 1])
        try:
            session.measure("all_reduce float32 private 8 0 0.1", 10)
        finally:
            session.close()
    assert sentence in str(failure.value)


def test_silence_has_an_end():
    session = Session(peer("hang"), 2, [0, 1])
    with pytest.raises(PeerFailed, match="gave no answer in 0 s"):
        session.measure("all_reduce float32 private 8 0 0.1", 0.3)
    session.close(patient=False)
    assert is_gone(session.process.pid)


def test_no_start_has_an_end():
    with pytest.raises(PeerFailed, match="was not ready after"):
        Session(peer("sleep"), 2, [0, 1], start_s=0.5)


def test_close_ends_those_who_do_not_listen():
    session = Session(peer("deaf"), 2, [0, 1])
    session.close(patient=False)
    assert is_gone(session.process.pid)


@pytest.mark.parametrize("command, status, limit_s", [
    (["-c", "import os, sys; sys.exit(os.environ['WORLD_SIZE'] != '3')"], 0, 20),
    (["-c", "import os, sys, time; os.environ['RANK'] == '1' and sys.exit(7); time.sleep(60)"], 7, 20),
])
def test_ranks_end_together(command, status, limit_s):
    done = subprocess.run([sys.executable, COMPARE / "ranks.py", "3", sys.executable, *command], timeout=limit_s,
                          check=False)
    assert done.returncode == status


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_driver_takes_its_programs_along(tmp_path, number):
    driver = subprocess.Popen([sys.executable, STANDIN, "drive", tmp_path / "pid"], stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 20
    while not (tmp_path / "pid").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    pid = int((tmp_path / "pid").read_text())
    os.kill(driver.pid, number)
    driver.wait(timeout=20)
    assert wait_until_gone(pid)
