"""Starts of several processes that cannot succeed: every process names the missing or different processes within the
start timeout, and none ends with code 0.
"""

import os
import shutil
import signal
import socket
import time

import harness
from processes_case import ProcessesCase, load_at_once

MODEL = os.path.join(harness.FAMILIES, "qwen3")
GENERATE = ("generate", "--model", MODEL, "--device", "cpu", "--tp", 2, "--token-ids", "5,6,7", "-n", 2)


def has_ipv6():
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        return False
    return True


@harness.of_the_program
class Starts(ProcessesCase):
    def run_failing(self, *parts, n=2, arguments=GENERATE, timeout_s=30, **how):
        began = time.monotonic()
        processes = self.start(n, *arguments, "--start-timeout", timeout_s, **how)
        self.end_failed(processes, *parts)
        return processes, time.monotonic() - began

    def test_missing_process(self):
        self.run_failing("process 2", n=3, arguments=(*GENERATE, "--tp", 3), timeout_s=6, leave_out=(2,))

    def test_missing_process_0(self):
        processes, _ = self.run_failing("process 0", timeout_s=1, leave_out=(0,))
        self.assertIn("Connection refused", processes[1].err)

    def test_process_0_fails_before_the_roll_call(self):
        """The others have its reason without waiting for the start timeout."""
        common = ("--model", MODEL, "--device", "cpu", "--tp", 2)
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            cases = ((("serve", *common, "--port", port), {}, f"port {port}"),
                     ((*GENERATE, "--prompt-file", "/nowhere.txt"), {}, "/nowhere.txt"),
                     (("batch", "/nowhere.jsonl", *common), {}, "/nowhere.jsonl"),
                     (("chat", *common), {}, "tokenizer.json"),
                     (("bench", *common), {0: ("--output", "/nowhere/bench.json")}, "/nowhere/bench.json"),
                     (("bench", *common, "--batch", 1, "--input-len", 8), {0: ("--output-len", 1 << 24)},
                      "found 16777224"))
            for arguments, more, reason in cases:
                _, seconds = self.run_failing(reason, arguments=arguments, more=more, timeout_s=60)
                self.assertLess(seconds, 40, arguments)

    def test_signal_while_waiting(self):
        """There is no other process to wait for."""
        process = self.start(2, *GENERATE, leave_out=(0,))[1]
        process.wait_for("waiting up to")
        process.popen.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(), 130)
        self.assertIn("stopped: Interrupt", process.err)

    def test_unknown_master_address(self):
        process = self.start_one([*GENERATE, "--nnodes", 2, "--node-rank", 1, "--master-addr",
                                  "no-such-host.invalid", "--start-timeout", 1], {})
        process.wait_for("waiting up to 1 s for process 0: cannot connect to no-such-host.invalid")
        self.end_failed([process], "no process 0 within 1 s: cannot connect to no-such-host.invalid")

    def test_refused_connection_is_reported_at_once(self):
        process = self.start(2, *GENERATE, "--start-timeout", 60, leave_out=(0,))[1]
        process.wait_for(r"waiting up to 60 s for process 0: cannot connect to .*: Connection refused")

    def test_master_address(self):
        """An address in brackets; a port that is taken; an address of another host."""
        arguments = (*GENERATE, "--start-timeout", 30)
        if has_ipv6():
            host = "[::1]"
            self.end(self.start(2, *arguments, more=dict.fromkeys((0, 1), ("--master-addr", host))))
        with socket.create_server(("127.0.0.1", 0)) as taken:
            own = ("--master-addr", "127.0.0.1", "--master-port", taken.getsockname()[1])
            process = self.start(2, *arguments, more={0: own}, leave_out=(1,))[0]
            process.wait()
            self.assertRegex(process.err, "Address already in use.*--master-port")
        process = self.start(2, *arguments, more={0: ("--master-addr", "192.0.2.1")}, leave_out=(1,))[0]
        process.wait()
        self.assertRegex(process.err, r"192\.0\.2\.1.*no network interface of this host .*--master-addr")

    def test_differing_options(self):
        processes, seconds = self.run_failing("max-num-seqs", more={1: ("--max-num-seqs", 7)})
        self.assertIn("7", processes[0].err)
        self.assertLess(seconds, 20)  # no process waits for the start timeout
        self.run_failing("no-prefix-reuse differs", more={1: ("--no-prefix-reuse",)})
        self.run_failing("lm-head differs", more={1: ("--lm-head", "int8")})
        self.run_failing("disable-custom-all-reduce differs", more={1: ("--disable-custom-all-reduce",)})

    def test_differing_ranks(self):
        self.run_failing("ranks", more={1: ("--tp", 4)})
        processes, _ = self.run_failing("expected a multiple of 2", more={1: ("--tp", 3)})
        self.assertIn("ranks in all DIFFERS", processes[0].err)
        self.assertNotIn("checkpoint DIFFERS", processes[0].err)

    def test_differing_checkpoint(self):
        folder = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        shutil.copytree(MODEL, folder)
        path = next(os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".safetensors"))
        with open(path, "r+b") as file:
            file.seek(-1, os.SEEK_END)
            last = file.read(1)[0]
            file.seek(-1, os.SEEK_END)
            file.write(bytes([last ^ 1]))
        self.run_failing("checkpoint", more={1: ("--model", folder)})

    def test_missing_checkpoint(self):
        self.run_failing("/nowhere", more={1: ("--model", "/nowhere")})

    def test_wrong_key(self):
        env = {0: {"YOKE_CLUSTER_KEY": "one"}, 1: {"YOKE_CLUSTER_KEY": "other"}}
        self.run_failing("key", timeout_s=6, env=env)

    def test_same_number_twice(self):
        processes = self.start(2, *GENERATE, "--start-timeout", 6, more={1: ("--node-rank", 0)})
        self.end_failed(processes)

    def test_same_follower_twice(self):
        arguments = (*GENERATE, "--tp", 3)
        self.run_failing("process 1", n=3, arguments=arguments, timeout_s=6, more={2: ("--node-rank", 1)})

    def test_counts_that_do_not_divide(self):
        self.run_failing("expected a multiple of 2", arguments=(*GENERATE, "--tp", 3))

    def test_usage(self):
        for options, part in ((("--nnodes", 2), "--node-rank"),
                              (("--nnodes", 2, "--node-rank", 1), "--master-addr"),
                              (("--nnodes", 2, "--node-rank", 2, "--master-addr", "h"), "--node-rank: expected 0 to 1"),
                              (("--nnodes", 2, "--node-rank", 1, "--master-addr", ""), "--master-addr"),
                              (("--headless",), "--headless"),
                              (("--node-rank", 1), "--node-rank: expected --nnodes with it, found 1 alone"),
                              (("--master-addr", "h"), "--master-addr: expected --nnodes with it, found h alone"),
                              (("--nnodes", 65), "--nnodes")):
            self.assert_usage_error([*GENERATE, *options], part)
        for name, value in (("WORLD_SIZE", "many"), ("RANK", "2")):
            env = {"WORLD_SIZE": "2", "RANK": "0", "MASTER_ADDR": "h", "MASTER_PORT": "1", name: value}
            self.assert_usage_error(GENERATE, f"{name}: expected", env=env)


load_tests = load_at_once

if __name__ == "__main__":
    harness.main()
