"""The scripts of scripts/deploy in a Slurm of the test's own: a controller and two nodes on this machine, where Slurm
and munge are installed and the test may run as root."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.request

import harness
from batch_case import TINY, prompts_of_ids
from processes_case import clean_environment, random_address

DEPLOY = os.path.normpath(os.path.join(harness.TESTS_DIR, "..", "scripts", "deploy"))
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel", "scontrol")
CONFIGURATION = """ClusterName=test
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerParameters=sched_interval=1
GresTypes=gpu
NodeName={nodes} NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[2]}] CPUs=8 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=10 State=UP
"""


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.1)


def are_free(ports):
    with contextlib.ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True


def free_ports(n):
    """Consecutive ports that nothing listens on."""
    while True:
        first = random_address()[1]
        if are_free(range(first, first + n)):
            return list(range(first, first + n))


@harness.of_the_program
class Slurm(harness.Case):
    def setUp(self):
        missing = [name for name in PROGRAMS if not shutil.which(name, path=PATH)]
        if missing or os.geteuid() != 0:
            self.skipTest(f"no {', '.join(missing) or 'root'} here")
        self.folder = harness.scratch_folder(self.addCleanup)
        os.chmod(self.folder, 0o755)
        os.symlink(self.yoke, os.path.join(self.folder, "yoke"))
        self.env = {**clean_environment(), "PATH": f"{self.folder}:{PATH}",
                    "SLURM_CONF": os.path.join(self.folder, "slurm.conf")}
        # A node is named by its address, since the scripts give the first node's name to --master-addr.
        self.nodes = [f"127.0.0.{number}" for number in (2, 3)]
        self.start()

    def write(self, name, content, mode=0o644):
        path = os.path.join(self.folder, name)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(path, mode)
        return path

    def start(self):
        os.mkdir(os.path.join(self.folder, "state"))
        key = self.write("munge.key", os.urandom(128), 0o600)
        self.write("gres.conf", "NodeName=127.0.0.[2-3] Name=gpu File=/dev/null\n")
        self.write("slurm.conf", CONFIGURATION.format(folder=self.folder, host=socket.gethostname().split(".")[0],
                                                      nodes="127.0.0.[2-3]", ports=free_ports(3)))
        self.daemon("munged", "--foreground", "--force", f"--socket={self.folder}/munge.socket", f"--key-file={key}",
                    f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                    f"--seed-file={self.folder}/munge.seed")
        wait_until(lambda: os.path.exists(f"{self.folder}/munge.socket"), "munge")
        self.daemon("slurmctld", "-D")
        for node in self.nodes:
            self.daemon("slurmd", "-D", "-N", node)
        wait_until(lambda: self.slurm("sinfo", "-h", "-o", "%D%t").split() == ["2idle"], "nodes")

    def daemon(self, *command):
        popen = subprocess.Popen(command, env=self.env, cwd=self.folder, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.DEVNULL)
        self.addCleanup(popen.wait, 30)
        self.addCleanup(popen.terminate)

    def slurm(self, *command):
        done = subprocess.run([*map(str, command)], env=self.env, cwd=self.folder, capture_output=True, text=True,
                              timeout=harness.TIMEOUT_S, check=False)
        return done.stdout

    def submit(self, script, variables, *arguments, options=()):
        exported = ",".join(["ALL", *(f"{name}={value}" for name, value in variables.items())])
        number = self.slurm("sbatch", "--parsable", f"--export={exported}", *options, os.path.join(DEPLOY, script),
                            *arguments).strip()
        self.assertRegex(number, r"^\d+$")
        self.addCleanup(self.slurm, "scancel", number)
        return number

    def read(self, name):
        path = os.path.join(self.folder, name)
        if not os.path.exists(path):
            return ""
        with open(path, encoding="utf-8") as file:
            return file.read()

    def test_hosts(self):
        """A server over two nodes answers, and ends in order on a signal to the job."""
        job = self.submit("yoke_hosts.sbatch", {"MODEL": TINY}, "--device", "cpu", "--threads", 1, "--port", 0,
                          "--master-port", random_address()[1], "--kv-cache-bytes", "1MiB",
                          options=("--nodes=2", "--gpus-per-node=1"))
        log = f"slurm-{job}.out"
        wait_until(lambda: "yoke: serving" in self.read(log), "server")
        self.assertIn("process 1 (host", self.read(log))
        port = int(re.search(r"listening on http://.*:(\d+)", self.read(log)).group(1))
        body = json.dumps({"prompt": [5, 6, 7], "max_tokens": 4, "temperature": 0, "ignore_eos": True}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v1/completions", body,
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=harness.TIMEOUT_S) as answer:
            self.assertEqual(json.load(answer)["usage"]["completion_tokens"], 4)
        self.slurm("scancel", "--signal=TERM", job)
        wait_until(lambda: not self.slurm("squeue", "-h"), "end of the job")
        self.assertIn("stopping", self.read(log))

    def test_batch(self):
        """Two tasks of an array write their parts, which merge to the whole once all parts exist."""
        path = os.path.join(self.folder, "in.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            file.write("".join('{"prompt": %s}\n' % prompt for prompt in prompts_of_ids(32)))
        self.submit("yoke_batch.sbatch", {"MODEL": TINY, "INPUT": path}, "--device", "cpu", "--threads", 1, "-n", 2,
                    "--kv-cache-bytes", "1MiB", options=("--array=1-2",))
        wait_until(lambda: not self.slurm("squeue", "-h"), "end of the jobs")
        for part in ("01", "02"):
            self.assertEqual(len(self.read(f"in-{part}-of-16.jsonl").splitlines()), 2)


if __name__ == "__main__":
    harness.main()
