#!/usr/bin/env python3
"""Ranks that real launchers start: test_launchers.py PLAIT_PERF [MPI_BESIDE]. With PLAIT_TEST_SLURM=1 srun, too,
on a Slurm of one node that is started here (as root; needs slurm-wlm and munge)."""
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from namespaces import two_hosts

PERF = os.path.abspath(sys.argv[1])
BESIDE = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else None
LIMIT_S = 120
SMALL = ("all_reduce", "-b", "8", "-e", "1K", "-f", "128")
MPIRUN = ("mpirun", "--oversubscribe", "--bind-to", "none") + (("--allow-run-as-root",) if os.getuid() == 0 else ())


def environment(**changes):
    """Ours without what a launcher may have left in it."""
    words = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "OMPI_", "PMI_", "PMIX_", "SLURM_", "PLAIT_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(words)}
    # Under a sanitizer: what the launchers' own libraries leave behind is not ours to count.
    return kept | {"PLAIT_LOG": "info", "ASAN_OPTIONS": "detect_leaks=0"} | changes


def run(*arguments, **changes):
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=LIMIT_S, env=environment(**changes))
    return done.returncode, done.stdout, done.stderr


def own_way(rank, command):
    """What goes before a program of which one rank is to run `command` first. (Open MPI 5.0.7's mpirun crashes when
    it is given a program a rank, with colons between.) Each rank lingers, since mpirun ends all at the first that
    fails, and the others have something to say, too."""
    first = f'[ "$OMPI_COMM_WORLD_RANK" != {rank} ] || {command}'
    return "sh", "-c", f'{first}; "$0" "$@"; code=$?; sleep 1.5; exit $code'


class Launchers(unittest.TestCase):
    def check_good(self, ranks, done):
        code, out, err = done
        self.assertEqual(code, 0, err)
        self.assertRegex(out, rf"# {ranks} ranks, ")
        self.assertIn("Out of bounds values : 0 OK", out)

    def check_sorry(self, done, *sentences):
        code, _, err = done
        self.assertNotEqual(code, 0)
        for sentence in sentences:
            self.assertRegex(err, sentence)
        self.assertNotIn("Segmentation", err)


@unittest.skipUnless(shutil.which("mpirun"), "Open MPI's mpirun is not here")
class Mpirun(Launchers):
    def test_ranks_meet_through_pmix(self):
        done = run(*MPIRUN, "-n", "4", PERF, *SMALL)
        self.check_good(4, done)
        self.assertEqual(len(re.findall(r"PMIx says that rank 0 is on host", done[2])), 4, done[2])

    def test_an_address_goes_before_the_launcher(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
        done = run(*MPIRUN, "-n", "2", PERF, *SMALL, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
        self.check_good(2, done)
        self.assertNotIn("PMIx says", done[2])

    def test_another_key_is_named_on_both_sides(self):
        done = run(*MPIRUN, "-n", "2", *own_way(0, "export PLAIT_JOB_KEY=one"), PERF, *SMALL,
                   PLAIT_JOB_KEY="another", PLAIT_START_TIMEOUT_MS="1000")
        self.assertRegex(done[2], r"rank 1 of 2 did not come within .* rank 1 \(pid \d+ on .*\) has another job key")
        self.assertRegex(done[2], r"rank 1 of 2, on .*, found no rank 0 .* has another job key")

    def test_a_rank_that_never_comes_is_named(self):
        done = run(*MPIRUN, "-n", "2", *own_way(1, "exec sleep 3"), PERF, *SMALL, PLAIT_START_TIMEOUT_MS="1000")
        self.check_sorry(done, r"rank 1 of 2 did not come within")

    def test_rank_0_never_comes(self):
        done = run(*MPIRUN, "-n", "2", *own_way(0, "exec sleep 3"), PERF, *SMALL, PLAIT_START_TIMEOUT_MS="1000")
        self.check_sorry(done, r"rank 0 did not come: rank 1 of 2 found no word of it with the launcher's PMIx")

    def test_an_interface_that_does_not_exist(self):
        done = run(*MPIRUN, "-n", "2", PERF, *SMALL, PLAIT_INTERFACE="nowhere0", PLAIT_START_TIMEOUT_MS="1000")
        self.check_sorry(done, r"PLAIT_INTERFACE is 'nowhere0', which is not here; there are: lo 127.0.0.1")

    def test_two_hosts(self):
        with two_hosts() as hosts, tempfile.TemporaryDirectory() as folder:
            if hosts is None:
                self.skipTest("no network namespaces can be made here")
            agent = os.path.join(folder, "agent")  # which mpirun takes for ssh
            with open(agent, "w") as file:
                file.write(f"""#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do shift; done
shift
exec nsenter --net=/proc/{hosts[1].holder.pid}/ns/net unshare --uts sh -c "hostname node2; $*"
""")
            os.chmod(agent, 0o755)
            mpirun = hosts[0].start(LIMIT_S, *MPIRUN, "-n", "4", "-H", "10.77.1.1:2,10.77.1.2:2", "-x", "PLAIT_LOG",
                                    PERF, *SMALL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    env=environment(OMPI_MCA_plm_rsh_agent=agent, PRTE_MCA_plm_ssh_agent=agent))
            out, err = mpirun.communicate()
            self.check_good(4, (mpirun.returncode, out, err))
            self.assertIn("transport shm+ofi", out)
            self.assertEqual(len(re.findall(r"PMIx says that rank 0 is on host .* of 10\.77\.1\.1\n", err)), 4, err)

    @unittest.skipUnless(BESIDE, "MPI was not found when this was built")
    def test_mpi_beside_plait(self):
        for order in "before", "after":
            with self.subTest(order):
                code, out, err = run(*MPIRUN, "-n", "2", BESIDE, order)
                self.assertEqual((code, out), (0, "mpi_beside: all is well\n"), err)
                self.assertIn("PMIx says", err)

    @unittest.skipUnless(BESIDE, "MPI was not found when this was built")
    def test_mpi_started_by_plait(self):
        code, out, err = run(*MPIRUN, "-n", "2", BESIDE, "inside", PLAIT_LAUNCHER="mpi")
        self.assertEqual((code, out), (0, "mpi_beside: all is well\n"), err)
        self.assertIn("MPI says that rank 0", err)


class Slurm:
    """One node: munged, slurmctld and slurmd, on ports and in a folder of their own."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="plait-slurm-")
        self.daemons = []
        self.host = socket.gethostname()

    def start(self, *arguments):
        with open(f"{self.folder}/log", "ab") as log:
            self.daemons.append(subprocess.Popen(arguments, stdout=log, stderr=log, stdin=subprocess.DEVNULL))

    def up(self):
        os.chmod(self.folder, 0o755)
        key = f"{self.folder}/munge.key"
        with open(key, "wb") as file:
            file.write(os.urandom(128))
        os.chmod(key, 0o400)
        self.start("munged", "--foreground", "--force", "--key-file", key, "--socket", f"{self.folder}/munge.socket",
                   "--pid-file", f"{self.folder}/munged.pid", "--log-file", f"{self.folder}/munged.log",
                   "--seed-file", f"{self.folder}/munged.seed")
        with open(f"{self.folder}/slurm.conf", "w") as file:
            file.write(f"""ClusterName=one
SlurmctldHost={self.host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SlurmctldPort=6927
SlurmdPort=6928
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool
SlurmctldPidFile={self.folder}/slurmctld.pid
SlurmdPidFile={self.folder}/slurmd.pid
MpiDefault=none
NodeName={self.host} NodeAddr=127.0.0.1 CPUs={os.cpu_count()} State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8
""")
        os.mkdir(f"{self.folder}/state")
        os.mkdir(f"{self.folder}/spool")
        self.start("slurmctld", "-D", "-f", f"{self.folder}/slurm.conf")
        self.start("slurmd", "-D", "-f", f"{self.folder}/slurm.conf", "-N", self.host)
        for _ in range(150):
            state = run("sinfo", "-h", "-o", "%T", SLURM_CONF=f"{self.folder}/slurm.conf")[1]
            if "idle" in state:
                return True
            time.sleep(0.2)
        with open(f"{self.folder}/log") as file:
            print(file.read(), file=sys.stderr)
        return False

    def down(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


@unittest.skipUnless(os.environ.get("PLAIT_TEST_SLURM"), "PLAIT_TEST_SLURM is not set")
class Srun(Launchers):
    @classmethod
    def setUpClass(cls):
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.down)
        if not cls.slurm.up():
            raise RuntimeError("the Slurm of one node did not come up")

    def srun(self, *arguments, **changes):
        return run("srun", *arguments, SLURM_CONF=f"{self.slurm.folder}/slurm.conf", **changes)

    def test_by_the_node_list(self):
        done = self.srun("--mpi=none", "-n", "3", "--overcommit", PERF, *SMALL)
        self.check_good(3, done)
        self.assertIn("the first of SLURM_STEP_NODELIST", done[2])

    def test_by_pmi2(self):
        done = self.srun("--mpi=pmi2", "-n", "3", "--overcommit", PERF, *SMALL)
        self.check_good(3, done)
        self.assertIn("PMI says that rank 0", done[2])

    def test_by_pmix(self):
        if "pmix" not in "".join(self.srun("--mpi=list")[1:]):
            self.skipTest("this Slurm has no pmix")
        done = self.srun("--mpi=pmix", "-n", "3", "--overcommit", PERF, *SMALL)
        self.check_good(3, done)
        self.assertIn("PMIx says that rank 0", done[2])

    def test_two_steps_at_once(self):
        both = [subprocess.Popen(["srun", "--mpi=none", "-n", "2", "--overcommit", PERF, *SMALL],
                                 env=environment(SLURM_CONF=f"{self.slurm.folder}/slurm.conf"),
                                 stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        for step in both:
            out, err = step.communicate(timeout=LIMIT_S)
            self.check_good(2, (step.returncode, out, err))

    def test_a_rank_that_never_comes_is_named(self):
        done = self.srun("--mpi=none", "-n", "2", "--overcommit", "sh", "-c",
                         f"[ $SLURM_PROCID = 1 ] || exec {PERF} {' '.join(SMALL)}", PLAIT_START_TIMEOUT_MS="1000")
        self.check_sorry(done, r"rank 1 of 2 did not come within")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
