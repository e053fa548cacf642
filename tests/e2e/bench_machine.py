"""yoke bench machine on CPU ranks: the table, the JSON that studies read, and refused options."""

import json
import os

import harness
import processes_case

SMALL = ("--memory-bytes", "8MiB", "--gemm", "4x256x256", "--all-reduce-max", "4KiB", "--repeats", 3)
ROW = {"kind", "method", "device", "to", "ranks", "threads", "bytes", "m", "k", "n", "us", "us_low", "us_high", "rate",
       "rate_unit", "bus_rate", "error"}


class BenchMachine(harness.Case):
    def measure(self, *options, expect=0):
        path = os.path.join(harness.scratch_folder(self.addCleanup), "machine.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write("older and longer than what comes" * 1000)
        done = self.run_yoke("bench", "machine", "--device", "cpu", *SMALL, "--output", path, *options, expect=expect)
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)

    def test_table_and_json(self):
        done, report = self.measure("--ranks", 2, "--threads", 2)
        self.assertEqual(report["yoke_machine"], 1)
        self.assertEqual(report["device"], "cpu")
        self.assertEqual(len(report["devices"]), 1)
        self.assertGreater(report["memory_bytes_per_s"], 1e6)
        self.assertGreater(report["gemm_flops"], 1e6)
        self.assertIsNone(report["link_bytes_per_s"])
        self.assertEqual([(row["ranks"], row["bytes"]) for row in report["all_reduce"]], [(2, 1024), (2, 4096)])
        for row in report["rows"]:
            self.assertEqual(set(row), ROW)
            self.assertIsNone(row["error"])
            self.assertLessEqual(row["us_low"], row["us"])
            self.assertEqual(row["bus_rate"], row["rate"] if row["kind"] == "all_reduce" else None)  # of two ranks
        self.assertEqual([row["kind"] for row in report["rows"]],
                         ["memory"] * 3 + ["gemm"] * 2 + ["all_reduce"] * 4)
        lines = done.out.splitlines()
        self.assertTrue(lines[0].startswith("what "))
        self.assertEqual(len(lines), 1 + len(report["rows"]) + 3)
        for line, row in zip(lines[1:], report["rows"]):
            self.assertTrue(line.startswith(row["kind"]), line)
            self.assertIn(row["method"], line)
            self.assertIn(f"{row['us']:.2f}", line)

    def test_a_failed_row(self):
        self.assert_error(("bench", "machine", "--device", "cpu", "--memory-bytes", 1),
                          "--memory-bytes: expected 1048576 to ")
        done, report = self.measure("--memory-bytes", "1TiB", "--threads", 1, expect=1)
        failed = [row for row in report["rows"] if row["error"]]
        self.assertEqual([row["method"] for row in failed], ["read", "copy"])
        self.assertIn("1.00 TiB needed", failed[0]["error"])
        self.assertIsNone(failed[0]["us"])
        self.assertIsNone(report["memory_bytes_per_s"])
        self.assertIn("FAILED: host memory: 1.00 TiB needed", done.out)
        self.assertIn("2 of 8 measurements failed", done.err)

    def test_networks(self):
        """Several processes: process 0 measures its devices, and every pair the network between them, both ways."""
        folder = harness.scratch_folder(self.addCleanup)
        path = os.path.join(folder, "machine.json")
        arguments = ("bench", "machine", "--device", "cpu", "--ranks", 1, *SMALL, "--output", path)
        case = processes_case.ProcessesCase()
        case.yoke, case.addCleanup = self.yoke, self.addCleanup
        processes = case.start(3, *arguments)
        case.end(processes)
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(sorted((link["from"], link["to"]) for link in report["network"]),
                         [(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)])
        for link in report["network"]:
            self.assertEqual((link["transport"], link["from_host"]), ("tcp", link["to_host"]))
            for name in ("latency_us", "bytes_per_s"):
                self.assertLess(0, link[f"{name}_low"])
                self.assertLessEqual(link[f"{name}_low"], link[name])
                self.assertLessEqual(link[name], link[f"{name}_high"])
        self.assertEqual(len([line for line in processes[0].out.splitlines() if line.startswith("tcp ")]), 6)
        self.assertTrue(report["rows"])
        self.assertEqual([process.out for process in processes[1:]], ["", ""])

    def test_help(self):
        self.assertIn("--all-reduce-max", self.run_yoke("bench", "machine", "--help").out)

    def test_refusals(self):
        for arguments, parts in ((["--devices", "0,0"], ["--devices", "expected each device once, found 0 twice"]),
                                 (["--devices", "0", "--device", "cpu"],
                                  ["--devices", "expected --device auto or cuda with it, found cpu"]),
                                 (["--devices", "0", "--ranks", "2"], ["--ranks", "--devices"]),
                                 (["--ranks", "2"], ["--ranks", "--device cpu"]),
                                 (["--gemm", "4x256"], ["--gemm", "4096x4096x24576", '"4x256"']),
                                 (["--gemm", "4x200x256"], ["--gemm", "multiples of 128", "200"]),
                                 (["--all-reduce-max", "0"], ["--all-reduce-max", "at least 1.00 KiB, found 0 B"]),
                                 (["--ranks", "65"], ["--ranks", '"65"']),
                                 (["--repeats", "2"], ["--repeats", '"2"'])):
            with self.subTest(arguments):
                self.assert_usage_error(["bench", "machine", *arguments], *parts)
        self.assert_error(["bench", "machine", "--device", "cpu", "--output", "/no/such/file"], "--output",
                          "/no/such/file", "No such file")
        self.assert_error(["bench", "machine", "--device", "cpu", "--all-reduce-max", "2GiB"],
                          "--all-reduce-max: expected 1024 to 1073741824, found 2147483648")
        if harness.count_gpus() == 0:
            self.assert_error(["bench", "machine", "--device", "cuda"], "device cuda")


if __name__ == "__main__":
    harness.main()
