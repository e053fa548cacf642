"""yoke plan."""

import os

import harness

MODEL = os.path.join(harness.FAMILIES, "qwen3_group128")
GROUP_CUT = os.path.join(harness.FAMILIES, "llama_uneven")


class Plan(harness.Case):
    def plan(self, *options, model=MODEL):
        *plans, links = self.run_json("plan", "--model", model, "--device", "cpu", *options)
        self.assertEqual(links, {"gpus": [], "links": [], "sums": [], "sum_error": ""})
        return plans

    def test_rank_counts(self):
        plans = self.plan()
        self.assertEqual([plan["n_ranks"] for plan in plans], list(range(1, 9)))
        for plan in plans:
            self.assertEqual(set(plan), {"n_ranks", "fits", "reason", "kv_tokens", "ranks"})
            self.assertTrue(plan["fits"])
            self.assertEqual(len(plan["ranks"]), plan["n_ranks"])
            self.assertGreaterEqual(plan["kv_tokens"], 256)
            for rank in plan["ranks"]:
                self.assertEqual(set(rank), {"weight_bytes", "kv_bytes", "workspace_bytes", "kv_bytes_per_token"})
                self.assertEqual(rank["kv_bytes"], rank["kv_bytes_per_token"] * plan["kv_tokens"])
        largest = [max(rank["weight_bytes"] for rank in plan["ranks"]) for plan in plans]
        self.assertGreater(largest[0], largest[1])
        self.assertGreater(largest[1], largest[3])

    def test_idle_ranks_are_named(self):
        self.assertIn("no attention head", self.plan("--tp", 7, model=GROUP_CUT)[0]["reason"])

    def test_matches_what_the_engine_takes(self):
        for n_ranks in (1, 3):
            plan = self.plan("--tp", n_ranks)[0]
            done = self.run_yoke("generate", "--model", MODEL, "--device", "cpu", "--tp", n_ranks, "--token-ids", 5, "-n", 2)
            for rank, memory in enumerate(plan["ranks"]):
                self.assertIn(f"rank {rank}: weights {text_of(memory['weight_bytes'])}, "
                              f"KV {text_of(memory['kv_bytes'])}, "
                              f"workspace {text_of(memory['workspace_bytes'])}", done.err)

    def test_too_little_memory(self):
        plan = self.plan("--tp", 1, "--device-memory", "64KiB")[0]
        self.assertFalse(plan["fits"])
        self.assertIn("leave no room for KV", plan["reason"])
        many = self.plan("--device-memory", "64KiB")
        self.assertEqual(len(many), 8)

    def test_a_cache_smaller_than_a_block(self):
        plan = self.plan("--tp", 1, "--kv-cache-bytes", 100)[0]
        self.assertFalse(plan["fits"])
        self.assertIn("kv_cache_bytes: expected at least", plan["reason"])
        self.assertIn("found 100 B", plan["reason"])

    def test_sizes(self):
        sizes = ("20000000", "20000 KB", "20MB", "0.02GB", "20000000B", "20mb")
        plans = [self.plan("--tp", 1, "--device-memory", size) for size in sizes]
        for plan in plans[1:]:
            self.assertEqual(plan, plans[0])
        self.assertNotEqual(self.plan("--tp", 1, "--device-memory", "20MiB"), plans[0])
        self.assertEqual(self.plan("--tp", 1, "--kv-cache-bytes", "64KiB"), self.plan("--tp", 1, "--kv-cache-bytes", 65536))

    def test_table(self):
        lines = self.run_yoke("plan", "--model", MODEL, "--device", "cpu").out.splitlines()
        self.assertEqual(lines[1].split(), "ranks fits weights KV workspace KV tokens".split())
        self.assertEqual([line.split()[0] for line in lines[2:10]], list("12345678"))
        self.assertEqual(lines[10:], ["", "There are no GPU links: ranks run on the CPU."])


def text_of(n_bytes):
    """As the program writes an amount of memory."""
    value, units = float(n_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop(0)
    decimals = 0 if units[0] == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {units[0]}"


if __name__ == "__main__":
    harness.main()
