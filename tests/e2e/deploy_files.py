"""The files of scripts/deploy: the programs that read them accept them, where these are installed; the Slurm scripts
run with stand-ins for Slurm; every option of Yoke in them exists."""

import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.request

import harness
from batch_case import TINY, prompts_of_ids
from processes_case import Process, clean_environment, random_address

DEPLOY = os.path.join(harness.TESTS_DIR, "..", "scripts", "deploy")
SRUN = """#!/bin/sh
# Starts the command once for each host, and ends with the first failure, as srun --kill-on-bad-exit does.
while [ "${1#-}" != "$1" ]; do shift; done
trap 'kill $first $second' TERM
SLURM_NODEID=0 "$@" & first=$!
SLURM_NODEID=1 "$@" & second=$!
wait $first; code=$?
while kill -0 $first 2>/dev/null; do wait $first; code=$?; done
wait $second && exit $code
"""


def which(name):
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def read(name):
    with open(os.path.join(DEPLOY, name), encoding="utf-8") as file:
        return file.read()


def block_behind(text, key):
    """The YAML block scalar that follows a line."""
    lines = iter(text[text.index(key):].splitlines())
    first = next(line for line in lines if line.endswith("- |"))
    indent = len(first) - len(first.lstrip())
    block = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) <= indent:
            break
        block.append(line)
    return "\n".join(block)


@harness.of_the_program
class Files(harness.Case):
    def setUp(self):
        self.folder = harness.scratch_folder(self.addCleanup)

    def put(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path, 0o755)
        return path

    def environment(self, **more):
        """With this yoke, and the stand-ins of self.folder, first in the path."""
        with contextlib.suppress(FileExistsError):
            os.symlink(self.yoke, os.path.join(self.folder, "yoke"))
        return {**clean_environment(), "PATH": f"{self.folder}:{os.environ['PATH']}", **more}

    def run_tool(self, name, *arguments):
        if not which(name):
            self.skipTest(f"no {name} here")
        done = subprocess.run([which(name), *arguments], capture_output=True, text=True, timeout=harness.TIMEOUT_S,
                              check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def options_of(self, command):
        return set(re.findall(r"--[a-z][a-z-]+", self.run_yoke(command, "--help").out))

    # ---- Checked by the programs that read them ----------------------------------------------------------------------

    def test_haproxy(self):
        self.run_tool("haproxy", "-c", "-f", os.path.join(DEPLOY, "haproxy.cfg"))

    def test_nginx(self):
        config = self.put("nginx.conf", read("nginx.conf").replace("/tmp/yoke_nginx.pid", f"{self.folder}/pid"))
        self.run_tool("nginx", "-t", "-e", "stderr", "-c", config)

    def test_systemd(self):
        unit = self.put("yoke@.service", read("yoke@.service").replace("/opt/yoke/bin/yoke", self.yoke))
        os.chmod(unit, 0o644)
        self.assertEqual(self.run_tool("systemd-analyze", "verify", unit), "")

    def test_kubernetes(self):
        for path in glob.glob(os.path.join(DEPLOY, "kubernetes", "*.yaml")):
            self.assertIn("passed", self.run_tool("kubernetes-validate", path))

    # ---- Options -----------------------------------------------------------------------------------------------------

    def test_options(self):
        serve = self.options_of("serve")
        for name in ("yoke@.service", "kubernetes/replicas.yaml", "kubernetes/hosts.yaml", "haproxy.cfg"):
            text = re.sub(r"--(now|from-literal)", "", read(name))
            found = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
            self.assertTrue(found, name)
            self.assertEqual(found - serve, set(), name)

    def test_vllm_router(self):
        self.put("vllm-router", '#!/bin/sh\necho "$@"\n')
        script = os.path.join(DEPLOY, "vllm_router.sh")
        for arguments, urls in (((), "http://127.0.0.1:8001 http://127.0.0.1:8002"), (("http://a", "http://b"),
                                                                                     "http://a http://b")):
            done = subprocess.run([script, *arguments], env=self.environment(), capture_output=True, text=True,
                                  timeout=harness.TIMEOUT_S, check=True)
            self.assertTrue(done.stdout.endswith(f"--worker-urls {urls}\n"), done.stdout)

    def test_pods_of_several_hosts(self):
        """The command of each pod, with a stand-in for the program."""
        os.remove(self.put("yoke", ""))
        environment = self.environment(HOSTNAME="yoke-hosts-0")
        os.remove(os.path.join(self.folder, "yoke"))
        self.put("yoke", '#!/bin/sh\necho "$@"\n')
        command = block_behind(read("kubernetes/hosts.yaml"), "command: [bash, -c]")
        for pod, end in (("0", "--master-addr yoke-hosts-0.yoke-hosts\n"),
                         ("1", "--master-addr yoke-hosts-0.yoke-hosts --headless\n")):
            done = subprocess.run(["bash", "-c", command], env={**environment, "HOSTNAME": f"yoke-hosts-{pod}"},
                                  capture_output=True, text=True, timeout=harness.TIMEOUT_S, check=True)
            self.assertTrue(done.stdout.endswith(f"--nnodes 2 --node-rank {pod} {end}"), done.stdout)

    # ---- Slurm -------------------------------------------------------------------------------------------------------

    @unittest.skipUnless(harness.ON_CPU, "CPU ranks")
    def test_slurm_hosts(self):
        """Two processes, each with its ranks, as on two hosts. Both get SIGTERM, and a running request is finished."""
        address, port = random_address()
        self.put("srun", SRUN)
        self.put("scontrol", f"#!/bin/sh\necho {address}\nsleep 0.2\necho other\n")  # in two writes
        script = os.path.join(DEPLOY, "yoke_hosts.sbatch")
        environment = self.environment(MODEL=harness.DEMO, SLURM_JOB_NODELIST="a[1-2]", SLURM_NNODES="2",
                                       SLURM_GPUS_ON_NODE="2")
        run = Process(["bash", script, *harness.ON, "--threads", "1", "--kv-cache-bytes", "64MiB", "--host",
                       "127.0.0.1", "--port", "0", "--master-port", str(port)], environment)
        self.addCleanup(run.kill)
        url = run.wait_for(r"listening on (http://\S+)", "out")[1]
        run.wait_for("serving ")
        with urllib.request.urlopen(f"{url}/server_info", timeout=harness.TIMEOUT_S) as answer:
            self.assertIn(b'"tp_size":4,"dp_size":1', answer.read())
        body = {"prompt": "Tell a story", "max_tokens": 600, "ignore_eos": True, "stream": True}
        request = urllib.request.Request(f"{url}/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=harness.TIMEOUT_S) as answer:
            answer.readline()
            run.popen.terminate()
            self.assertEqual(answer.read().count(b'"text"'), 599)
        self.assertEqual(run.wait(), 0, run.err)

    def test_slurm_batch(self):
        """Some tasks of an array job, and the remaining tasks in a second job."""
        lines = "".join('{"prompt": %s, "max_tokens": 2}\n' % prompt for prompt in prompts_of_ids(5))
        source = self.put("in.jsonl", lines)
        script = os.path.join(DEPLOY, "yoke_batch.sbatch")
        for task in (2, 16, 1, 3, 4, 5):
            subprocess.run(["bash", script, *harness.ON, "--threads", "1", "--kv-cache-bytes", "16MiB"], check=True,
                           env=self.environment(MODEL=TINY, INPUT=source, SLURM_ARRAY_TASK_ID=str(task)),
                           capture_output=True, timeout=harness.TIMEOUT_S)
        parts = sorted(glob.glob(os.path.join(self.folder, "in-*-of-16.jsonl")))
        self.assertEqual([os.path.basename(part) for part in parts],
                         [f"in-{task:02}-of-16.jsonl" for task in (1, 2, 3, 4, 5, 16)])
        self.assertEqual(self.run_yoke("batch", "merge", source, *parts).out.count("\n"), 5)


if __name__ == "__main__":
    harness.main()
