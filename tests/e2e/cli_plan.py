"""yoke plan."""

import json
import os
import re
import shutil

import harness

MODEL = os.path.join(harness.FAMILIES, "qwen3_group128")
PLAIN_MODEL = os.path.join(harness.FAMILIES, "gemma3")
EXPERTS = os.path.join(harness.FAMILIES, "moe_qwen2")
HYBRID = os.path.join(harness.FAMILIES, "hybrid_qwen3_5")
GROUP_CUT = os.path.join(harness.FAMILIES, "llama_uneven")


NO_LINKS = {"gpus": [], "links": [], "all_reduces": [], "all_reduce_error": ""}
GIB = 1 << 30
COLUMNS = "bytes of the largest one; tokens of KV that all can hold."

# As in Meta-Llama-3-70B-Instruct, quantised by AutoAWQ.
LLAMA_3_70B = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
    "torch_dtype": "float16", "tie_word_embeddings": False, "bos_token_id": 128000, "eos_token_id": 128001,
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True,
                            "modules_to_not_convert": None},
}


QWEN3_30B_A3B = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 2048, "intermediate_size": 6144,
    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "vocab_size": 151936,
    "max_position_embeddings": 40960, "torch_dtype": "float16", "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768, "norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": [],
    "quantization_config": LLAMA_3_70B["quantization_config"],
}


class Plan(harness.Case):
    def plan(self, *options, model=MODEL, device="cpu", expect=0):
        *plans, links = self.run_json("plan", "--model", model, "--device", device, *options, expect=expect)
        self.assertEqual(links, NO_LINKS)
        return plans

    def test_rank_counts(self):
        plans = self.plan()
        self.assertEqual([plan["n_ranks"] for plan in plans], list(range(1, 9)))
        for plan in plans:
            self.assertEqual(set(plan), {"device", "n_ranks", "n_stages", "fits", "reason", "assumes_formats",
                                         "kv_tokens", "max_seqs", "kv_cache_dtype", "n_experts", "expert_parallel",
                                         "ranks"})
            self.assertFalse(plan["expert_parallel"])
            self.assertTrue(plan["fits"])
            self.assertFalse(plan["assumes_formats"])
            self.assertEqual(plan["device"], "cpu")
            self.assertEqual(len(plan["ranks"]), plan["n_ranks"])
            self.assertGreaterEqual(plan["kv_tokens"], 256)
            for rank in plan["ranks"]:
                self.assertEqual(set(rank), {"stage", "weight_bytes", "kv_bytes", "state_bytes", "state_cache_bytes",
                                             "workspace_bytes", "kv_bytes_per_token", "n_experts", "expert_bytes",
                                             "active_bytes"})
                self.assertEqual((rank["n_experts"], rank["expert_bytes"], rank["active_bytes"]), (0, 0, 0))
                self.assertEqual(rank["kv_bytes"], rank["kv_bytes_per_token"] * plan["kv_tokens"])
        largest = [max(rank["weight_bytes"] for rank in plan["ranks"]) for plan in plans]
        self.assertGreater(largest[0], largest[1])
        self.assertGreater(largest[1], largest[3])

    def test_the_embedding_is_cut(self):
        """Two ranks together hold little more than one rank; the difference is less than another embedding."""
        with open(os.path.join(MODEL, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        one, two = (sum(rank["weight_bytes"] for rank in self.plan("--tp", n, "--dtype", "float32")[0]["ranks"])
                    for n in (1, 2))
        self.assertLess(two - one, config["vocab_size"] * config["hidden_size"] * 4 / 2)

    def test_idle_ranks_are_named(self):
        self.assertIn("rank 6 holds no attention head", self.plan("--tp", 7, model=GROUP_CUT)[0]["reason"])
        reason = "ranks 4 to 7 hold no attention head (the model has 4)"
        self.assertEqual(self.plan("--tp", 8, model=EXPERTS)[0]["reason"], reason)
        reason += "; rank 7 holds no expert (the model has 7)"
        self.assertEqual(self.plan("--tp", 8, "-ep", model=EXPERTS)[0]["reason"], reason)

    def test_matches_the_engines_memory(self):
        for model, *options in ((MODEL, "--tp", 1), (MODEL, "--tp", 3), (EXPERTS, "--tp", 3),
                                (EXPERTS, "--tp", 2, "-ep"), (HYBRID, "--tp", 2)):
            plan = self.plan(*options, model=model)[0]
            done = self.run_yoke("generate", "--model", model, "--device", "cpu", "--token-ids", 5, "-n", 2, *options)
            for rank, memory in enumerate(plan["ranks"]):
                states = f"states {text_of(memory['state_bytes'])}, " if memory["state_bytes"] else ""
                self.assertIn(f"rank {rank}: weights {text_of(memory['weight_bytes'])}, "
                              f"KV {text_of(memory['kv_bytes'])}, {states}"
                              f"workspace {text_of(memory['workspace_bytes'])}", done.err)

    def test_states(self):
        """Recurrent states of running sequences, apart from KV; where memory is short, fewer sequences run."""
        with open(os.path.join(HYBRID, "config.json"), encoding="utf-8") as file:
            config = json.load(file)["text_config"]
        keys, values = config["linear_num_key_heads"], config["linear_num_value_heads"]
        key_dim, value_dim = config["linear_key_head_dim"], config["linear_value_head_dim"]
        channels = 2 * keys * key_dim + values * value_dim
        n_layers = config["num_hidden_layers"] - config["num_hidden_layers"] // config["full_attention_interval"]
        state = n_layers * 4 * (values * key_dim * value_dim + 3 * channels)
        for n_ranks in (1, 2):
            plan, = self.plan("--tp", n_ranks, "--max-num-seqs", 100, model=HYBRID)
            self.assertEqual((plan["max_seqs"], plan["reason"]), (100, ""))
            self.assertEqual(sum(rank["state_bytes"] for rank in plan["ranks"]), 100 * state)
        plan, = self.plan("--tp", 1, "--max-num-seqs", 64, model=MODEL)
        self.assertEqual((plan["max_seqs"], plan["ranks"][0]["state_bytes"]), (64, 0))
        # Without the share of the KV cache there is room for 30 states, so that 15 sequences run.
        alone, = self.plan("--tp", 1, "--max-num-seqs", 100, model=HYBRID)
        fixed = alone["ranks"][0]["weight_bytes"] + alone["ranks"][0]["workspace_bytes"]
        memory = ("--device-memory", fixed + 30 * state, "--gpu-memory-utilization", 1)
        few, = self.plan("--tp", 1, "--max-num-seqs", 100, *memory, model=HYBRID)
        quarter = (fixed + 30 * state) // 4
        n_seqs = min(15 * state, quarter) // state
        self.assertEqual((few["max_seqs"], few["ranks"][0]["state_bytes"]), (n_seqs, n_seqs * state))
        self.assertIn(f"max_seqs is lowered from 100 to {n_seqs}", few["reason"])
        used = sum(few["ranks"][0][kind] for kind in ("weight_bytes", "workspace_bytes", "state_bytes", "kv_bytes",
                                                    "state_cache_bytes"))
        self.assertLessEqual(used, fixed + 30 * state)
        budgets = ((0, 0), (state, 1), (7 * state + 1, 7))
        for budget, n in budgets:
            plan, = self.plan("--tp", 2, "--state-cache-bytes", budget, model=HYBRID)
            self.assertEqual(sum(rank["state_cache_bytes"] for rank in plan["ranks"]), n * state)
        done = self.run_yoke("plan", "--model", harness.DEMO, "--device", "cpu", "--state-cache-bytes", "900TiB",
                             expect=1)
        self.assertIn("--state-cache-bytes: expected at most ", done.err)
        plan, = self.plan("--tp", 2, "--state-cache-bytes", "1GiB", "--kv-cache-bytes", "64KiB", model=HYBRID)
        self.assertEqual(sum(rank["state_cache_bytes"] for rank in plan["ranks"]), plan["kv_tokens"] // 64 * state)
        done = self.run_yoke("plan", "--model", HYBRID, "--device", "cpu", "--tp", 1, *memory, "--state-cache-bytes",
                             30 * state, expect=1)
        self.assertIn("weights, recurrent states and workspace take ", done.err)
        for command in ("plan", "generate"):
            prompt = () if command == "plan" else ("--token-ids", 5)
            for budget, words in ((state // 2, f"expected 0, or at least {text_of(state)}"),
                                  ("900TiB", "the memory of all ranks")):
                done = self.run_yoke(command, "--model", HYBRID, "--device", "cpu", "--tp", 2, *prompt,
                                     "--state-cache-bytes", budget, expect=1)
                self.assertIn("--state-cache-bytes: ", done.err)
                self.assertIn(words, done.err)
        # On GPUs a quarter of the memory without weights, workspace and states.
        on_gpu = ("--tp", 1, "--max-num-seqs", 100, "--gpu-memory-utilization", 1, "--device-memory")
        rank = self.plan(*on_gpu, "80GiB", model=HYBRID, device="cuda")[0]["ranks"][0]
        fixed = rank["weight_bytes"] + rank["workspace_bytes"] + rank["state_bytes"]
        rank = self.plan(*on_gpu, fixed + 201 * state, model=HYBRID, device="cuda")[0]["ranks"][0]
        self.assertEqual((rank["state_bytes"], rank["state_cache_bytes"]), (100 * state, 50 * state))
        self.assertLessEqual(rank["kv_bytes"], 151 * state)
        self.assertGreater(rank["kv_bytes"], 140 * state)
        table = self.run_yoke("plan", "--model", HYBRID, "--device", "cpu", "--tp", 1, "--max-num-seqs", 100).out
        self.assertIn(f"recurrent states of 100 sequences take {text_of(100 * state)}", table)

    def test_logits_of_all_lie_on_rank_0(self):
        """Also each rank's share on that rank; nothing else of the workspace differs here."""
        for device, n_ranks in (("cpu", 2), ("cuda", 4)):
            ranks = self.plan("--tp", n_ranks, "--device-memory", "80GiB", "--max-num-seqs", 24,
                              model=self.config_dir(LLAMA_3_70B), device=device)[0]["ranks"]
            for rank in ranks[1:]:
                others = (n_ranks - 1) * 24 * 128256 // n_ranks
                self.assertEqual(ranks[0]["workspace_bytes"] - rank["workspace_bytes"], others * 4)

    def test_experts(self):
        """Qwen3-30B-A3B: 128 experts in each of 48 layers, of which a token uses 8."""
        weights = 48 * 3 * 2048 * 768  # of all experts, one expert each; 16 columns by 128 inputs are 1024 + 64 bytes
        expert = weights // 2048 * (1024 + 64)
        model = self.config_dir(QWEN3_30B_A3B)
        for options, held in (((), [128] * 3), (("--enable-expert-parallel",), [43, 43, 42])):
            plan, = self.plan("--device-memory", "80GiB", "--tp", 3, *options, model=model, device="cuda")
            self.assertEqual((plan["n_experts"], plan["expert_parallel"]), (128, bool(options)))
            self.assertEqual([rank["n_experts"] for rank in plan["ranks"]], held)
            for rank in plan["ranks"]:
                self.assertEqual(rank["expert_bytes"], expert * rank["n_experts"] // (1 if options else 3))
                self.assertEqual(rank["weight_bytes"] - rank["active_bytes"], rank["expert_bytes"] * 120 // 128)
        lines = self.run_yoke("plan", "--model", model, "--device-memory", "80GiB", "--tp", 3, "-ep").out.splitlines()
        self.assertIn(f"experts take {text_of(expert * 43)} of the weights", lines[-1])
        self.assertIn("a rank holds 42 or 43 of 128 experts", lines[-1])

    def test_too_little_memory(self):
        plan = self.plan("--tp", 1, "--device-memory", "64KiB", expect=1)[0]
        self.assertFalse(plan["fits"])
        self.assertIn("leave no room for KV", plan["reason"])
        self.assertIn(f"on 1 rank: {plan['reason']}", self.last_err)
        many = self.plan("--device-memory", "64KiB", expect=1)
        self.assertEqual(len(many), 8)
        self.assertIn(f"nothing fits; on 8 ranks: {many[7]['reason']}", self.last_err)
        table = self.run_yoke("plan", "--model", MODEL, "--device-memory", "64KiB", expect=1).out
        self.assertEqual(table.count("  no  "), 8)

    def test_a_cache_smaller_than_a_block(self):
        plan = self.plan("--tp", 1, "--kv-cache-bytes", 100, expect=1)[0]
        self.assertFalse(plan["fits"])
        self.assertIn("kv_cache_bytes: expected at least", plan["reason"])
        self.assertIn("found 100 B", plan["reason"])

    def test_sizes(self):
        sizes = ("20000000", "20000 KB", "20MB", "0.02GB", "20000000B", "20mb")
        plans = [self.plan("--tp", 1, "--device-memory", size) for size in sizes]
        for plan in plans[1:]:
            self.assertEqual(plan, plans[0])
        self.assertNotEqual(self.plan("--tp", 1, "--device-memory", "20MiB"), plans[0])
        self.assertEqual(self.plan("--tp", 1, "--kv-cache-bytes", "64KiB"),
                         self.plan("--tp", 1, "--kv-cache-bytes", 65536))

    def test_table(self):
        lines = self.run_yoke("plan", "--model", MODEL, "--device", "cpu").out.splitlines()
        self.assertEqual(lines[0], f"For CPU ranks of this machine: {COLUMNS}")
        self.assertEqual(lines[1].split(), "ranks fits weights KV workspace KV tokens".split())
        self.assertEqual([line.split()[0] for line in lines[2:10]], list("12345678"))
        self.assertEqual(lines[10:], ["", "There are no GPU links: ranks run on the CPU."])

    # ---- other machines ----

    def config_dir(self, config):
        folder = harness.scratch_folder(self.addCleanup)
        with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
            json.dump(config, file)
        return folder

    def test_llama_3_70b_on_8_gpus_of_80_gib(self):
        model = self.config_dir(LLAMA_3_70B)
        for device in ("cuda", "auto"):  # an option for the memory of a device means GPUs
            plan, = self.plan("--device-memory", "80GiB", "--tp", 8, model=model, device=device)
            self.assertEqual(plan["device"], "cuda")
            self.assertTrue(plan["assumes_formats"])
            self.assertGreater(plan["kv_tokens"], 1.65e6)
            self.assertLess(plan["kv_tokens"], 1.8e6)
            for rank in plan["ranks"]:
                self.assertEqual(rank["kv_bytes_per_token"], 2 * 80 * 128 * 2)
                self.assertLess(rank["weight_bytes"] + rank["kv_bytes"] + rank["workspace_bytes"], 72 * GIB)
        of_layer = [rank["weight_bytes"] for rank in plan["ranks"]]
        plan, = self.plan("--device-memory", "80GiB", "--tp", 8, device="cuda",
                          model=self.config_dir({**LLAMA_3_70B, "num_hidden_layers": 79}))
        for rank, n_bytes in zip(plan["ranks"], of_layer):
            weights = (8192 * (1024 + 2 * 128) + 1024 * 8192 + 3 * 8192 * 28672 // 8)  # q, k, v; o; gate, up, down
            # 16 columns by 128 inputs are 1024 bytes of values and 64 of scales and zeros; two norms of 8192
            self.assertEqual(n_bytes - rank["weight_bytes"], weights // 2048 * (1024 + 64) + 2 * 8192 * 2)

    def test_some_rank_counts_fit(self):
        plans = self.plan("--device-memory", "24GiB", model=self.config_dir(LLAMA_3_70B), device="cuda")
        fits = [plan["fits"] for plan in plans]
        self.assertEqual(fits, sorted(fits))
        self.assertFalse(fits[0])
        self.assertTrue(fits[7])

    def test_no_gpus_of_this_machine_in_a_plan_for_another(self):
        done = self.run_yoke("plan", "--model", self.config_dir(LLAMA_3_70B), "--device-memory", "80GiB", "--tp", 4)
        lines = done.out.splitlines()
        self.assertEqual(len(lines), 4)
        self.assertEqual(lines[0], f"For GPU ranks with 80.0 GiB each: {COLUMNS}")
        self.assertIn("no weights", lines[1])
        self.assertIn("assumed", lines[1])

    def test_gpus_take_no_float32(self):
        command = ["plan", "--model", MODEL, "--device-memory", "80GiB", "--dtype", "float32"]
        self.assert_error(command, "float32", "GPUs run")

    def test_contexts_in_which_scores_grow(self):
        """Scores grow beyond 32 tokens. GPUs compute that, so contexts are as long as the model's."""
        model = os.path.join(harness.FAMILIES, "ministral3")
        options = "plan", "--model", model, "--device-memory", "80GiB", "--tp", 1, "--max-num-seqs", 1
        done = self.run_yoke(*options, "--max-model-len", 256, "--log-level", "info")
        self.assertNotIn("longest context", done.err)
        self.assert_error([*options, "--max-model-len", 257], "--max-model-len: expected at most 256", "found 257")

    def test_sizes_that_gpus_lack(self):
        """As loading does, from the same tables."""
        model = os.path.join(harness.scratch_folder(self.addCleanup), "model")
        os.mkdir(model)
        with open(os.path.join(model, "config.json"), "w", encoding="utf-8") as file:
            json.dump({**LLAMA_3_70B, "head_dim": 516, "vocab_size": 327681}, file)
        for layouts in ([], ["--goal", "latency", "--gpu", "H200", "--gpus", "2"]):
            result = self.run_yoke("plan", "--model", model, "--device-memory", "80GiB", *layouts, expect=1)
            self.assertIn("cuda device: sizes of the model are not supported: heads of 516 elements (supported: "
                          "multiples of 4 up to 512), vocab_size 327681 (supported: up to 327680); CPU ranks",
                          result.err)

    def test_without_a_gpu(self):
        if harness.count_gpus():
            self.skipTest("there is a GPU")
        self.assert_error(["plan", "--model", MODEL, "--device", "cuda"], "--device-memory")

    def test_a_configuration_alone_is_enough(self):
        for name in ("llama_bias", "llama_tied", "minicpm", "qwen2_bf16", "qwen3_f32", "qwen3_group64",
                     "qwen3_skip_qkv", "moe_qwen2", "moe_glm4", "moe_mixtral"):
            model = os.path.join(harness.FAMILIES, name)
            alone = self.config_dir({})
            for file in os.listdir(model):
                if file.endswith("config.json"):  # also quantize_config.json
                    shutil.copy(os.path.join(model, file), alone)
            for options in (["--device", "cpu"], ["--device-memory", "1GiB", "--dtype", "float16"]):
                with self.subTest(name, options=options):
                    known = self.run_json("plan", "--model", model, *options)
                    assumed = self.run_json("plan", "--model", alone, *options)
                    self.assertEqual([plan.pop("assumes_formats") for plan in known[:-1]], [False] * 8)
                    self.assertEqual([plan.pop("assumes_formats") for plan in assumed[:-1]], [True] * 8)
                    self.assertEqual(assumed, known)

    def test_scales_of_a_cache_that_is_latent(self):
        """The checkpoint's 8-bit scheme does not change the meaning of auto for latent attention."""
        with open(os.path.join(harness.FAMILIES, "deepseek_v2", "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        config["quantization_config"] = {
            "quant_method": "compressed-tensors", "format": "float-quantized",
            "config_groups": {"group_0": {"targets": ["Linear"],
                                          "weights": {"num_bits": 8, "type": "float", "strategy": "channel"}}},
            "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}}
        self.assertEqual(self.plan("--tp", 2, model=self.config_dir(config))[0]["kv_cache_dtype"], "float16")

    def test_4_bit_floats_on_any_ranks(self):
        """28,672 channels are 1,792 blocks of 16: GPUs would keep shares of 597 or 299 blocks as 16 bits."""
        floats = {**LLAMA_3_70B, "quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4",
                                                         "ignore": ["lm_head"]}}
        plans = self.plan("--device-memory", "141GiB", model=self.config_dir(floats), device="cuda")
        one = plans[0]["ranks"][0]["weight_bytes"]
        for plan in plans:
            self.assertEqual(plan["reason"], "")
            self.assertLess(sum(rank["weight_bytes"] for rank in plan["ranks"]), 1.04 * one)
        odd = self.config_dir({**floats, "intermediate_size": 28672 + 16})
        plan, = self.plan("--device-memory", "141GiB", "--tp", 2, model=odd, device="cuda")
        self.assertIn("80 weights are kept as 16 bits", plan["reason"])  # on the last rank alone

    def test_an_index_without_its_files(self):
        model = os.path.join(harness.FAMILIES, "qwen3_bf16")
        alone = self.config_dir({})
        for name in ("config.json", "model.safetensors.index.json"):
            shutil.copy(os.path.join(model, name), alone)
        self.assertTrue(self.plan("--tp", 1, model=alone)[0]["assumes_formats"])

    def test_impossible_settings_are_refused_first(self):
        gptq = {**LLAMA_3_70B, "quantization_config": {"quant_method": "gptq", "bits": 3, "group_size": 128}}
        mamba = {**LLAMA_3_70B, "architectures": ["MambaForCausalLM"]}
        for config, part in ((mamba, "MambaForCausalLM"), (gptq, "bits 3")):
            self.assert_error(["plan", "--model", self.config_dir(config), "--device-memory", "80GiB"], part)

    # ---- options ----

    def test_help_lists_options_that_change_sizes(self):
        listed = re.findall(r"(?m)^  (?:-\w, |--\w+, )?--([a-z-]+)", self.run_yoke("plan", "--help").out)
        self.assertEqual(listed, ["device-memory", "no-link-test", "format", "goal", "input-len", "output-len", "users",
                                  "gpu", "gpus", "machine", "nodes", "link", "link-latency", "model", "revision",
                                  "download-dir", "hf-overrides",
                                  "device", "devices", "tensor-parallel-size", "pipeline-parallel-size",
                                  "enable-expert-parallel", "disable-custom-all-reduce", "batch-invariant",
                                  "dtype", "weights", "activations", "lm-head", "kv-cache-dtype",
                                  "max-model-len", "dense-attention-beyond-index",
                                  "max-num-seqs", "max-num-batched-tokens", "gpu-memory-utilization",
                                  "kv-cache-bytes", "state-cache-bytes", "log-level", "enable-lora", "max-loras",
                                  "max-lora-rank"])
        for option in ("--seed", "--step-timeout", "--threads", "--no-prefix-reuse"):
            self.assert_usage_error(["plan", "--model", MODEL, option, 1], f"unknown option {option}")

    def test_activations(self):
        for option in ("auto", "fp8"):
            plan = self.run_json("plan", "--model", MODEL, "--device-memory", "8GiB", "--activations", option)
            self.assertTrue(plan[0]["fits"], plan[0]["reason"])
        expected = "--activations fp8: expected weights of 4-bit integers, "
        self.assert_error(["plan", "--model", MODEL, "--activations", "fp8", "--weights", "f16"],
                          expected + "found weights f16; supported: auto")
        self.assert_error(["plan", "--model", PLAIN_MODEL, "--activations", "fp8"],
                          expected + "which this model does not have; supported: auto")

    def test_oddities_are_reported_once(self):
        folder = harness.scratch_folder(self.addCleanup)
        model = os.path.join(folder, "model")
        shutil.copytree(MODEL, model)
        with open(os.path.join(model, "generation_config.json"), "w", encoding="utf-8") as file:
            json.dump({"top_p": 7}, file)
        self.assertEqual(self.run_yoke("plan", "--model", model, "--device", "cpu").err.count("top_p"), 1)


def text_of(n_bytes):
    """The program's notation of a memory size."""
    value, units = float(n_bytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 999.5 and len(units) > 1:
        value /= 1024
        units.pop(0)
    decimals = 0 if units[0] == "B" or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{decimals}f} {units[0]}"


class Layouts(harness.Case):
    """--goal: tp x pp x replicas, from given rates of GPUs."""

    def setUp(self):
        self.model = harness.scratch_folder(self.addCleanup)
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as file:
            json.dump(LLAMA_3_70B, file)

    def layouts(self, *options):
        return self.run_json("plan", self.model, *options)

    def test_every_layout_once_and_the_best_first(self):
        for goal, key in (("latency", "tokens_per_s_request"), ("throughput", "tokens_per_s")):
            found = self.layouts("--goal", goal, "--gpu", "H200", "--gpus", 8, "--users", 64)
            layouts = [(layout["replicas"], layout["tp"], layout["pp"]) for layout in found]
            self.assertEqual(sorted(layouts), sorted((8 // (tp * pp), tp, pp) for tp in (1, 2, 4, 8)
                                                     for pp in (1, 2, 4, 8) if tp * pp <= 8))
            rates = [layout[key] for layout in found]
            self.assertEqual(rates, sorted(rates, reverse=True))
            for layout in found:
                self.assertTrue(layout["fits"])
                self.assertEqual(layout["running"], 64 / layout["replicas"])
                self.assertAlmostEqual(layout["tokens_per_s_request"] * layout["step_ms"], 1000, delta=0.1)
                self.assertAlmostEqual(layout["tokens_per_s_gpu"], layout["tokens_per_s"] / 8, delta=0.1)
        self.assertEqual(self.layouts("--goal", "latency", "--gpu", "H200", "--gpus", 8)[0]["tp"], 8)

    def test_what_does_not_fit_is_last(self):
        found = self.layouts("--goal", "throughput", "--gpu", "4090", "--gpus", 4)
        self.assertEqual({layout["tp"] * layout["pp"] for layout in found if layout["fits"]}, {2, 4})
        self.assertFalse(found[-1]["fits"])
        text = self.run_yoke("plan", self.model, "--goal", "throughput", "--gpu", "4090", "--gpus", 4).out
        self.assertIn("4 x 1 x 1                does not fit: ", text)
        none = self.run_yoke("plan", self.model, "--goal", "latency", "--gpu", "3090", "--gpus", 1, expect=1)
        self.assertIn("no layout fits on 1 GPU", none.err)

    def test_replicas_win_over_pcie(self):
        with open(os.path.join(self.model, "config.json"), "w", encoding="utf-8") as file:
            json.dump({**LLAMA_3_70B, "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32,
                       "intermediate_size": 14336}, file)
        text = self.run_yoke("plan", self.model, "--goal", "throughput", "--gpu", "RTX 4090", "--gpus", 4).out
        self.assertIn("For 1 x 4 RTX 4090", text)
        self.assertIn("Best: 4 servers of --tensor-parallel-size 1, behind a router", text)
        self.assertRegex(text, r"One group of all 4 GPUs gives 0\.[45]\d of its tokens/s: .*, where replicas win")

    def test_hosts_and_their_network(self):
        hosts = ("--nodes", 2, "--gpu", "H200", "--gpus", 8, "--users", 1)
        sent = {(layout["tp"], layout["pp"]): layout for layout in self.layouts(*hosts)}
        row = 8192 * 2  # a row of hidden states
        for (tp, pp), layout in sent.items():
            expected = 161 * 8 * row if tp == 16 else row if tp * pp == 16 else 0  # each rank sends its host's sum
            self.assertEqual(layout["sent_bytes_per_token"], expected, (tp, pp))
        faster = {(layout["tp"], layout["pp"]): layout for layout in
                  self.layouts(*hosts, "--link", "800GB", "--link-latency", 1)}
        self.assertLess(faster[16, 1]["step_ms"], sent[16, 1]["step_ms"] - 161 * 9e-3 + 0.1)
        self.assertEqual(faster[8, 1]["step_ms"], sent[8, 1]["step_ms"])
        self.assertIn("400 Gb/s and 10 us between hosts", self.run_yoke("plan", self.model, *hosts).out)

    def test_measured_links(self):
        """--link FILE: the slowest link between two hosts, with its latency; not one within a host."""
        hosts = ("--nodes", 2, "--gpu", "H200", "--gpus", 8, "--users", 1)
        path = os.path.join(self.model, "links.json")

        def write(*links):
            keys = ("from_host", "to_host", "bytes_per_s", "latency_us")
            with open(path, "w", encoding="utf-8") as file:
                json.dump({"network": [dict(zip(keys, link)) for link in links]}, file)

        write(("a", "b", 25e9, 7), ("b", "a", 20e9, 6), ("a", "a", 1e9, 1))
        self.assertEqual(self.layouts(*hosts, "--link", path),
                         self.layouts(*hosts, "--link", "20GB", "--link-latency", 6))
        self.assertEqual(self.layouts(*hosts, "--link", path, "--link-latency", 9),
                         self.layouts(*hosts, "--link", "160Gb", "--link-latency", 9))
        write(("a", "a", 1e9, 1))
        self.assert_error(["plan", self.model, *hosts, "--link", path], "expected a network between two hosts")

    def test_measured_rates(self):
        machine = os.path.join(harness.TESTS_DIR, "..", "bench", "results", "machine_h200_x2.json")
        (two, *_) = self.layouts("--goal", "latency", "--machine", machine, "--gpus", 2)
        with open(machine, encoding="utf-8") as file:
            measured = json.load(file)
        measured["memory_bytes_per_s"] /= 2
        slower = os.path.join(self.model, "machine.json")
        with open(slower, "w", encoding="utf-8") as file:
            json.dump(measured, file)
        (half, *_) = self.layouts("--goal", "latency", "--machine", slower, "--gpus", 2)
        self.assertGreater(half["step_ms"], 1.6 * two["step_ms"])
        with open(slower, "w", encoding="utf-8") as file:
            json.dump({"devices": ["NVIDIA H200"]}, file)
        self.assert_error(["plan", self.model, "--goal", "latency", "--machine", slower], "expected memory_bytes_per_s")

    def test_wrong_options(self):
        for options, *texts in ((("--gpu", "T4"), "--gpu", "expected one of H200, H100", "found T4"),
                                (("--link", "400"), "--link", "400Gb"), (("--link", "-1Gb"), "--link"),
                                (("--nodes", 0), "--nodes"), (("--goal", "fun"), "latency")):
            self.assert_error(["plan", self.model, "--goal", "latency", *options], *texts, expect=2)
        self.assert_error(["plan", self.model, "--goal", "latency", "--device", "cpu"], "layouts are for GPUs",
                          expect=2)

    def test_options_without_effect(self):
        """An option that the plan would not use is refused, with the option that it needs."""
        for option in (("--gpu", "H200"), ("--gpus", 4), ("--machine", "m.json"), ("--users", 2), ("--input-len", 5)):
            self.assert_error(["plan", self.model, *option], option[0], "expected --goal or --nodes with it", expect=2)
        for option in (("--link", "100Gb"), ("--link-latency", 3)):
            for goal in ((), ("--goal", "latency", "--gpu", "H200")):
                self.assert_error(["plan", self.model, *goal, *option], f"{option[0]}: expected --nodes 2 or more",
                                  expect=2)
        for option in (("--tensor-parallel-size", 2), ("--pipeline-parallel-size", 2), ("--devices", "0,1")):
            self.assert_error(["plan", self.model, "--goal", "latency", "--gpu", "H200", *option],
                              f"{option[0]}: layouts have every number of ranks and stages", expect=2)
        self.assertIn("For 1 x 8 H200", self.run_yoke("plan", self.model, "--nodes", 1, "--gpu", "H200").out)


if __name__ == "__main__":
    harness.main()
