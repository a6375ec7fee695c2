"""A peer's program under way: started with so many ranks, asked for one row after another, ended."""
import ctypes
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path

START_S = 120
GRACE_S = 3
LOOK_S = 0.2
TAIL = 2000  # bytes of what a program said last
PR_SET_PDEATHSIG = 1
LAUNCHERS_OWN = ("OMPI_", "PMIX_", "PMI_", "PLAIT_")  # what an outer launcher may have left in the environment


class PeerFailed(Exception):
    """The peer did not start, died or did not answer; the sentence says which."""


def die_with_driver():
    """In the child: a driver that is killed outright takes its launchers along."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Session:
    """`peer.command(ranks, arguments)` is a launcher's command line."""

    def __init__(self, peer, ranks, cpus, priority=False, start_s=START_S):
        self.peer, self.ranks = peer, ranks
        self.process, self.stream = None, None
        self.folder = tempfile.TemporaryDirectory(prefix="compare-")
        self.log = open(Path(self.folder.name) / "output", "w+b")
        try:
            self._start(cpus, priority, start_s)
        except BaseException:
            self.close()
            raise

    def _start(self, cpus, priority, start_s):
        folder = Path(self.folder.name)
        arguments = ["--control", str(folder / "control"), "--socket", str(folder / "socket"),
                     "--cpus", ",".join(map(str, cpus)), *(["--priority"] if priority else [])]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(LAUNCHERS_OWN)}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(folder / "socket"))
            listener.listen(1)
            self.process = subprocess.Popen(
                self.peer.command(self.ranks, arguments), env=environment | self.peer.environment,
                stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, start_new_session=True,
                preexec_fn=die_with_driver)
            self.stream = self._accept(listener, start_s)
        hello = json.loads(self._read_line(start_s))
        self.version, self.can = hello["version"], set(hello["can"])

    def _check_alive(self, when):
        if self.process.poll() is not None:
            raise PeerFailed(f"{self.peer.name} with {self.ranks} ranks ended {when} "
                             f"(exit status {self.process.returncode}): {self.last_words()}")

    def _accept(self, listener, limit_s):
        listener.settimeout(LOOK_S)
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            try:
                return listener.accept()[0]
            except TimeoutError:
                self._check_alive("before it was ready")
        raise PeerFailed(f"{self.peer.name} with {self.ranks} ranks was not ready after {limit_s:.0f} s: "
                         f"{self.last_words()}")

    def _receive(self, when):
        """Some bytes, or none yet."""
        try:
            part = self.stream.recv(65536)
        except TimeoutError:
            self._check_alive(when)
            return b""
        except ConnectionError:
            part = b""
        if not part:
            self._ended(GRACE_S)
            self._check_alive(when)
            raise PeerFailed(f"{self.peer.name} closed its socket: {self.last_words()}")
        return part

    def _read_line(self, limit_s):
        deadline, line = time.monotonic() + limit_s, b""
        self.stream.settimeout(LOOK_S)
        while not line.endswith(b"\n"):
            if time.monotonic() > deadline:
                raise PeerFailed(f"{self.peer.name} with {self.ranks} ranks gave no answer in {limit_s:.0f} s")
            line += self._receive("in a measurement")
        return line

    def last_words(self):
        """The end of what the program printed, without rules and empty lines."""
        self.log.flush()
        size = self.log.seek(0, os.SEEK_END)
        self.log.seek(max(0, size - TAIL))
        lines = self.log.read().decode(errors="replace").split("\n")
        said = [line.strip() for line in lines if line.strip(" -*=\t")]
        return " / ".join(said[-3:])[:400] or "it said nothing"

    def measure(self, order, limit_s):
        """One row of "COLLECTIVE TYPE MEMORY BYTES POOL SECONDS"."""
        try:
            self.stream.sendall(f"row {order}\n".encode())
        except OSError:
            pass  # the reader tells what became of the program
        return json.loads(self._read_line(limit_s))

    def _ended(self, wait_s):
        deadline = time.monotonic() + wait_s
        while self.process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self.process.poll() is not None

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass

    def close(self, patient=True):
        """Asks the ranks to go, and sees to it. Launchers hand SIGTERM on to ranks outside of their group."""
        if self.stream:
            self.stream.close()
        if self.process:
            if not (patient and self._ended(GRACE_S)):
                self._signal(signal.SIGTERM)
                self._ended(GRACE_S)
            self._signal(signal.SIGKILL)
            self._ended(GRACE_S)
        self.log.close()
        self.folder.cleanup()
