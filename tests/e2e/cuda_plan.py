"""yoke plan on GPUs: the program tests and reports the devices, every link and the sums over them.

YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure; further GPUs are not used. No GPU: exit code 77.
"""

import os
import time

import harness

MODEL = os.path.join(harness.FAMILIES, "qwen3_group128")
LIMIT_S = 15  # wanted: 3 s on four idle GPUs


class Plan(harness.Case):
    n_gpus = 0

    def plan(self, n_gpus, *options):
        devices = ",".join(map(str, range(n_gpus)))
        *plans, links = self.run_json("plan", "--model", MODEL, "--device", "cuda", "--dtype", "float16", "--devices",
                                      devices, *options)
        self.assertEqual([plan["n_ranks"] for plan in plans], [n_gpus])
        self.assertTrue(plans[0]["fits"])
        self.assertEqual([gpu["id"] for gpu in links["gpus"]], list(range(n_gpus)))
        for gpu in links["gpus"]:
            self.assertGreater(gpu["total_bytes"], 1e9)
            self.assertLessEqual(gpu["free_bytes"], gpu["total_bytes"])
        pairs = [(link["from"], link["to"]) for link in links["links"]]
        self.assertEqual(pairs, [(i, j) for i in range(n_gpus) for j in range(n_gpus) if i != j])
        return plans[0], links

    def test_links_are_tested(self):
        for n_gpus in range(1, self.n_gpus + 1):
            started = time.monotonic()
            _, links = self.plan(n_gpus)
            self.assertLess(time.monotonic() - started, LIMIT_S)
            for link in links["links"]:
                self.assertEqual(link["error"], "")
                self.assertGreater(link["copy_gb_s"], 1)
                self.assertLess(link["copy_gb_s"], 5000)
                self.assertGreater(link["latency_us"], 0.1)
                self.assertLess(link["latency_us"], 1000)
            self.assertEqual(links["all_reduce_error"], "")
            self.assertEqual([total["n_bytes"] for total in links["all_reduces"]],
                             [16384, 1048576] if n_gpus > 1 else [])
            reach = all(link["peer_access"] for link in links["links"])
            for total in links["all_reduces"]:
                self.assertGreater(total["us"], 0.5)
                self.assertLess(total["us"], 10000)
                self.assertEqual(total["route"] != "nccl", reach)
            print(f"{n_gpus} GPUs, {time.monotonic() - started:.1f} s:", *links["links"], *links["all_reduces"],
                  sep="\n  ")

    def test_nothing_is_measured_where_not_wanted(self):
        _, links = self.plan(self.n_gpus, "--no-link-test")
        self.assertEqual((links["all_reduces"], links["all_reduce_error"]), ([], ""))
        for link in links["links"]:
            self.assertEqual((link["copy_gb_s"], link["latency_us"], link["error"]), (None, None, ""))

    def test_a_plan_for_another_machine_ignores_these_gpus(self):
        done = self.run_json("plan", "--model", MODEL, "--device", "cuda", "--device-memory", "20GiB", "--tp", 2)
        self.assertEqual(done[-1], {"gpus": [], "links": [], "all_reduces": [], "all_reduce_error": ""})
        self.assertNotIn("GPU  ", self.run_yoke("plan", "--model", MODEL, "--device-memory", "20GiB").out)

    def test_slots_are_counted(self):
        workspaces = [self.plan(n, "--no-link-test")[0]["ranks"][0]["workspace_bytes"]
                      for n in range(1, self.n_gpus + 1)]
        for several in workspaces[1:]:
            self.assertGreater(several, workspaces[0])

    def test_table(self):
        out = self.run_yoke("plan", "--model", MODEL, "--device", "cuda", "--dtype", "float16").out
        print(out)
        self.assertIn("GPU      memory        free  name\n", out)
        self.assertNotIn("FAILED", out)
        if self.n_gpus > 1:
            self.assertIn("us (", out)

    def test_gpus_that_are_not_there(self):
        """Their ranks are planned as on the first GPU, also for options that depend on the kind of GPU."""
        for options in ((), ("--activations", "fp8"), ("--batch-invariant",)):
            n_ranks, devices = (1, "999") if "--batch-invariant" in options else (2, "0,999")
            *plans, links = self.run_json("plan", "--model", MODEL, "--device", "cuda", "--dtype", "float16",
                                          "--devices", devices, *options)
            self.assertEqual([plan["n_ranks"] for plan in plans], [n_ranks])
            self.assertEqual([gpu["id"] for gpu in links["gpus"]], [0] if n_ranks == 2 else [])


if __name__ == "__main__":
    harness.gate(1)
    n_found = harness.count_gpus()
    Plan.n_gpus = min(n_found, int(os.environ.get("YOKE_REQUIRE_GPU", n_found)), 8)
    harness.main()
