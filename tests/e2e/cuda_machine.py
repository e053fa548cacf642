"""yoke bench machine on GPUs: every row is present, and rates are plausible."""

import json
import os

import harness


class CudaMachine(harness.Case):
    def measure(self, *options, expect=0):
        path = os.path.join(harness.scratch_folder(self.addCleanup), "machine.json")
        done = self.run_yoke("bench", "machine", "--device", "cuda", "--repeats", 3, "--output", path, *options,
                             expect=expect)
        with open(path, encoding="utf-8") as file:
            return done, json.load(file)

    def test_all_gpus(self):
        n_gpus = min(harness.count_gpus(), 8)
        _, report = self.measure("--all-reduce-max", "16MiB")
        kinds = [(row["kind"], row["method"]) for row in report["rows"]]
        n_pairs = n_gpus * (n_gpus - 1)
        for kind, count in ((("memory", "read"), n_gpus), (("memory", "copy"), n_gpus), (("gemm", "plain"), n_gpus),
                            (("gemm", "awq"), n_gpus), (("link", "copy"), n_pairs), (("latency", "copy"), n_pairs),
                            (("link", "both ways"), n_pairs // 2), (("all_reduce", "yoke"), 8 * (n_gpus - 1)),
                            (("all_reduce", "nccl"), 8 * (n_gpus - 1))):
            self.assertEqual(kinds.count(kind), count, kind)
        for row in report["rows"]:
            self.assertIsNone(row["error"])
            if row["kind"] == "memory":
                self.assertTrue(1e11 < row["rate"] < 2e13, row)
            if row["kind"] == "gemm":
                self.assertTrue(1e13 < row["rate"] < 4e15, row)
            if row["kind"] == "link":
                self.assertTrue(1e9 < row["rate"] < 4e12, row)
        self.assertEqual(len(report["all_reduce"]), 8 * (n_gpus - 1))

    def test_too_little_memory(self):
        _, report = self.measure("--devices", 0, "--memory-bytes", "900GiB", "--gemm", "128x512x512", expect=1)
        failed = [row for row in report["rows"] if row["error"]]
        self.assertEqual([row["kind"] for row in failed], ["memory", "memory"])
        self.assertIn("GPU 0: 900 GiB needed", failed[0]["error"])
        self.assertGreater(report["gemm_flops"], 0)

    def test_a_gpu_that_is_not_there(self):
        self.assert_error(["bench", "machine", "--devices", "0,99"], "GPU 99: this machine has")


if __name__ == "__main__":
    harness.gate(1)
    harness.main()
