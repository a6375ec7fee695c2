"""Network namespaces that pass for hosts, for tests in Python; tests/hosts.c is the same for those in C."""
import contextlib
import shutil
import subprocess


class Host:
    """A network namespace that lives as long as a process of it: cat, which ends with whoever holds its input."""

    def __init__(self):
        self.holder = subprocess.Popen(["unshare", "--net", "sh", "-c", "echo up; exec cat"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)  # fmt: skip
        self.there = self.holder.stdout.readline() == b"up\n"

    def start(self, seconds, *command, **more):
        inside = ["nsenter", f"--net=/proc/{self.holder.pid}/ns/net", *command]
        return subprocess.Popen(["timeout", "--kill-after=5", str(seconds), *inside], **more)

    def run(self, *command):
        return self.start(20, *command, stderr=subprocess.DEVNULL).wait() == 0

    def close(self):
        self.holder.stdin.close()
        self.holder.wait()


def _connect(hosts):
    """One link between two hosts, 10.77.1.1 and 10.77.1.2."""
    first, second = hosts
    good = first.run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "eth0", "netns", str(second.holder.pid))
    for number, host in enumerate(hosts, 1):
        good = good and host.run("ip", "addr", "add", f"10.77.1.{number}/24", "dev", "eth0")
        good = good and host.run("ip", "link", "set", "lo", "up") and host.run("ip", "link", "set", "eth0", "up")
    return good


@contextlib.contextmanager
def two_hosts():
    """Two hosts, 10.77.1.1 and 10.77.1.2; None where they can't be had. Nothing is left of them afterwards."""
    if not all(shutil.which(tool) for tool in ("unshare", "nsenter", "ip", "timeout")):
        yield None
        return
    made = [Host(), Host()]
    try:
        yield made if all(host.there for host in made) and _connect(made) else None
    finally:
        for host in made:
            host.close()
