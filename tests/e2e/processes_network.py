"""Processes of a run over networks that are slow, stall, or are cut: a slow network changes no token; the process that
is lost is named by every other one, within the time limit of a step plus 5 s.

A relay stands between process 0 and process 2, or each process has a separate network namespace.
"""

import json
import os
import time

import harness
from network_case import Namespaces, Relay
from processes_case import ProcessesCase, load_at_once, random_address

MODEL = os.path.join(harness.FAMILIES, "qwen3")
STEP_LIMIT_S = 4
PATIENCE_S = 60  # of a machine under load
COMMON = ("--model", MODEL, "--device", "cpu", "--tp", 3, "--threads", 3, "--kv-cache-bytes", "1MiB", "--step-timeout",
          STEP_LIMIT_S)
GENERATE = ("generate", *COMMON, "--token-ids", "5,6,7", "--ignore-eos", "-n", 12, "--format", "json", "--logprobs", 2)
SERVE = ("serve", *COMMON, "--port", 0)
KEY = {"YOKE_CLUSTER_KEY": "secret"}
SERVING = r"serving .*loaded in"


def tokens(process):
    result = json.loads(process.out)
    return result["token_ids"], result["logprobs"]


class NetworkCase(ProcessesCase):
    def name_process_2(self, processes):
        """Every process ends with a failure. Processes 0 and 1 name process 2."""
        began = time.monotonic()
        for process in processes:
            self.assertEqual(process.wait(PATIENCE_S), 1, process.err)
        self.assertLess(time.monotonic() - began, PATIENCE_S)
        for process in processes[:2]:
            self.assertRegex(process.err, r"error: (connection with )?process 2 \(host \S+, rank 2\)")
        self.assertRegex(processes[2].err, r"error: .*process 0 \(host \S+, rank 0\)|error: .*process 2 \(host")


@harness.of_the_program
class Relayed(NetworkCase):
    def start_relayed(self, *arguments):
        """Three processes; a relay between process 2 and process 0."""
        address, port = random_address()
        relay = Relay(address, port)
        self.addCleanup(relay.cut)
        ways = [("--master-addr", address, "--master-port", port)] * 2
        ways.append(("--master-addr", "127.0.0.1", "--master-port", relay.port))
        return relay, self.start(3, *arguments, more=dict(enumerate(ways)))

    def test_delay(self):
        relay, processes = self.start_relayed(*GENERATE)
        relay.delay_s = 0.01
        self.end(processes)
        self.assertEqual(tokens(processes[0]), tokens(self.run_yoke(*GENERATE)))

    def test_stall_within_the_limit(self):
        relay, processes = self.start_relayed(*SERVE)
        processes[0].wait_for(SERVING)
        relay.stalls = True
        time.sleep(STEP_LIMIT_S / 4)
        relay.stalls = False
        processes[0].popen.terminate()
        self.end(processes)

    def test_stall(self):
        relay, processes = self.start_relayed(*SERVE)
        processes[0].wait_for(SERVING)
        relay.stalls = True
        self.name_process_2(processes)
        for process in processes:
            self.assertIn("silent for 4.0 s: it is stopped, or cannot be reached", process.err)

    def test_cut(self):
        relay, processes = self.start_relayed(*SERVE)
        processes[0].wait_for(SERVING)
        relay.cut()
        self.name_process_2(processes)


@harness.of_the_program
class Hosts(NetworkCase):
    """A network namespace for each process."""

    def start_in(self, namespaces, *arguments, masters, env=None):
        processes = []
        for i, master in enumerate(masters):
            flags = ("--nnodes", len(masters), "--node-rank", i, "--master-addr", master)
            command = [*namespaces.enter(i), self.yoke, *arguments, *flags]
            processes.append(self.start_one(command[1:], env or KEY, command[0]))
        return processes

    def test_two_hosts(self):
        """The table names the interfaces of each host; without a key, only hosts that are named may join."""
        hosts = Namespaces(2, self)
        hosts.connect(0, 1, "net", "192.0.2")
        arguments = (*GENERATE, "--tp", 2)
        processes = self.start_in(hosts, *arguments, "--log-level", "debug", masters=["192.0.2.1"] * 2)
        self.end(processes)
        self.assertEqual(tokens(processes[0]), tokens(self.run_yoke(*arguments)))
        self.assertIn("process 1 of 2 is here: host ", processes[0].err)
        self.assertRegex(processes[0].err, r"(?s)network.*process 0: neta=192\.0\.2\.1.*process 1: netb=192\.0\.2\.2")
        refused = self.start_in(hosts, *arguments, "--start-timeout", 3, masters=["192.0.2.1"] * 2, env={"A": ""})
        self.end_failed(refused, "without a key only this machine and the hosts named")
        named = self.start_in(hosts, *arguments, "--process-host", "192.0.2.2", masters=["192.0.2.1"] * 2,
                              env={"A": ""})
        self.end(named)

    def test_cut_network(self):
        """The interface of process 2 goes down while the server is idle."""
        hosts = Namespaces(3, self)
        hosts.connect(0, 1, "one", "192.0.2")
        hosts.connect(0, 2, "two", "198.51.100")
        for i, gateway in ((1, "192.0.2.1"), (2, "198.51.100.1")):
            hosts.ip(i, f"route add default via {gateway}")
        hosts.forward(0)
        processes = self.start_in(hosts, *SERVE, masters=["192.0.2.1", "192.0.2.1", "198.51.100.1"])
        processes[0].wait_for(SERVING)
        hosts.ip(0, "link set twoa down")
        self.name_process_2(processes)

    def test_wrong_interface(self):
        """Process 1 has no route to the address, and reports its interfaces."""
        hosts = Namespaces(2, self)
        hosts.connect(0, 1, "net", "192.0.2")
        processes = self.start_in(hosts, *GENERATE, "--tp", 2, "--start-timeout", 2,
                                  masters=["192.0.2.1", "198.51.100.1"])
        self.end_failed(processes)
        self.assertRegex(processes[1].err, r"cannot connect to 198\.51\.100\.1, port 29500: Network is unreachable")
        self.assertIn("network of this host: netb=192.0.2.2", processes[1].err)
        self.assertRegex(processes[0].err, r"network: neta=192\.0\.2\.1")

    def test_hosts_that_cannot_reach_each_other(self):
        """Both reach process 0, by interfaces of different networks."""
        hosts = Namespaces(3, self)
        hosts.connect(0, 1, "one", "192.0.2")
        hosts.connect(0, 2, "two", "198.51.100")
        processes = self.start_in(hosts, *GENERATE, masters=["192.0.2.1", "192.0.2.1", "198.51.100.1"])
        self.end_failed(processes)
        for process in processes:
            self.assertRegex(process.err, r"connection with process 1 \(.*of process 2 \(.*cannot connect to "
                                          r"192\.0\.2\.2, port \d+: Network is unreachable")


load_tests = load_at_once

if __name__ == "__main__":
    harness.main()
