"""Whole models: speed, studies, accuracy, loading, quantising."""

from statistics import median

from results_page.page import field, link, number, one, percent, times

BATCHES = (1, 8, 32, 64, 256)
# file, model as the file names it, its name on the page, ranks, whole experts a rank
SPEEDS = [("models_1869a2e_h200.json", "qwen3-8b", "Qwen3-8B", ranks, None) for ranks in (1, 2, 3, 4)] + [
    ("models_2a7cf4e_h100_x2.json", "qwen3-8b", "Qwen3-8B", 1, False),
    ("models_1869a2e_h200.json", "qwen3-30b-a3b", "Qwen3-30B-A3B", 1, None),
    ("models_1869a2e_h200.json", "qwen3-30b-a3b", "Qwen3-30B-A3B", 2, None),
    ("models_bbeed12_h200_x4.json", "qwen3-30b-a3b", "Qwen3-30B-A3B", 4, False),
    ("models_515385a_h200_x2.json", "deepseek-v2-lite --group-size 64", "DeepSeek-V2-Lite", 1, False),
    ("models_515385a_h200_x2.json", "deepseek-v2-lite --group-size 64", "DeepSeek-V2-Lite", 2, False),
    ("models_0dba0d9_h200_x2.json", "deepseek-v3 --layers 4", "DeepSeek-V3, 4 layers", 1, False),
    ("models_8db1319a_h200_x2.json", "qwen3.5-9b", "Qwen3.5-9B", 1, None),
    ("models_8db1319a_h200_x2.json", "qwen3.5-35b-a3b", "Qwen3.5-35B-A3B", 1, None),
    ("models_8db1319a_h200_x2.json", "qwen3.5-35b-a3b", "Qwen3.5-35B-A3B", 2, None),
]


def add_speed(page, results):
    page.section("Whole models", (
        "Greedy, 512 tokens in, 60 to 100 out: tokens/s while all sequences decode (in brackets as a multiple of one "
        "GPU's, same state); prefill at batch 64; output tokens/s over the whole time of 256 requests of 1,000 tokens "
        "in and out. Medians of 1 to 3 runs. `yoke bench -m DIR --ranks N --batch B --input-len I --output-len O "
        "--repeats R`"))
    rows = []
    for name, model, title, ranks, whole in SPEEDS:
        found = results.measured(name)
        runs = found["runs"]
        machine = "H100" if "h100" in name else "H200"
        wanted = {"model": model, "input_len": 512}
        share = {} if whole is None else {"expert_parallel": whole}
        cells = [title, f"{ranks} x {machine}"]
        for batch in BATCHES:
            speed = field(runs, "decode_throughput", ranks=ranks, batch=batch, **wanted, **share)
            single = field(runs, "decode_throughput", ranks=1, batch=batch, **wanted)
            cells.append(number(speed) if speed is None or ranks == 1 or single is None else
                         f"{number(speed)} ({times(speed / single)})")
        cells.append(number(field(runs, "prefill_throughput", ranks=ranks, batch=64, **wanted, **share)))
        cells.append(number(field(runs, "output_throughput", model=model, ranks=ranks, input_len=1000, **share)))
        rows.append(cells + [link(name, found["commit"])])
    page.table(["shapes", "GPUs"] + [f"batch {batch}" for batch in BATCHES] + ["prefill", "1,000 in, out", "state"],
               rows)


def interval(point):
    low, high = point["intervals"]["output_throughput"]
    return f"{number(point['output_throughput'])} ({number(low)} to {number(high)})"


def load_study(results, folder):
    return results.load(f"{folder}/study.json")["points"]


def add_studies(page, results):
    studies = results.load("studies.json")["studies"]
    points = load_study(results, studies[3]["folder"])
    gains = [one(points, batch=batch, options={"weights": "auto"})["output_throughput"] /
             one(points, batch=batch, options={"weights": "f16"})["output_throughput"] for batch in (1, 32, 256)]
    page.section("Studies", (
        f"Output tokens/s over whole runs, 512 tokens in, 100 out, medians and 95 % intervals over three starts of the "
        f"engine; the share of the limit; what the second GPU loses, in parts that add up with the efficiency to 100 "
        f"%. The power cap (700 W) lowers the clock from 32 sequences on. `yoke study` as in each `study.json`. 4-bit "
        f"weights are {', '.join(times(gain) for gain in gains)} times as fast as 16-bit ones at batch 1, 32, 256 "
        f"({studies[3]['gpu']}, {link(studies[3]['folder'], studies[3]['commit'])})."))
    rows = []
    for study in studies[:3]:
        points = load_study(results, study["folder"])
        kind = "H100" if "H100" in study["gpu"] else "H200"
        for batch in (1, 64, 256):
            single, double = (one(points, ranks=ranks, batch=batch) for ranks in (1, 2))
            losses = double["losses"]
            rows.append([f"{study['model']}, {kind}", batch, interval(single), percent(single["limit"]["share"]),
                         interval(double), percent(double["limit"]["share"]), times(double["speedup"])] +
                        [f"{100 * losses[part]:.1f} %"
                         for part in ("all_reduce", "imbalance", "smaller_gemms", "unsplit")] +
                        [link(study["folder"], study["commit"])])
    page.table(["shapes", "batch", "1 GPU", "of limit", "2 GPUs", "of limit", "times", "all-reduce", "waiting",
                "smaller GEMMs", "unsplit", "state"], rows)


MEASURES = ("mean_kl", "mean_abs", "max_abs")
EXPERTS_ACCURACY = (("deepseek-v3", "DeepSeek-V3, 4 layers"), ("glm-4.5", "GLM-4.5, 4 layers"),
                    ("kimi-k2", "Kimi-K2, 2 layers"), ("qwen3-30b-a3b", "Qwen3-30B-A3B, 6 layers"),
                    ("deepseek-v2-lite", "DeepSeek-V2-Lite, 6 layers"), ("mixtral-8x7b", "Mixtral-8x7B, 2 layers"),
                    ("qwen2-57b-a14b", "Qwen2-57B-A14B, 2 layers"))


def ratios_of(found, model):
    """The ratios of a mixture that are in a file of either run; None if neither has any."""
    point = next((item for item in found["models"] if item["model"].split(",")[0] == model), None)
    if point is None:
        return None
    return point["yoke"][0]["ratio to transformers"] if "yoke" in point else point["ratio to transformers"]


def add_accuracy(page, results):
    dense, four, first, second = (results.measured(name) for name in (
        "accuracy_h200_x2.json", "accuracy_h200_x4.json", "accuracy_experts_first_run_h200.json",
        "accuracy_experts_h200.json"))
    page.section("Accuracy", (
        f"Differences of log-probabilities from `transformers` {dense['transformers']} in float32, over those of "
        f"`transformers` in float16: below 1 Yoke is nearer. Dense models on 1, 2 and 4 H200s, limits 1.2, 1.2, 1.5. "
        f"Mixtures on one, two runs on the same weights, judged by the lower quartile of KL (1.2): a position that "
        f"takes another expert weighs a hundred times as much in a mean. `compare_transformers.py --preset PRESET`"))
    states = (f"{link('accuracy_h200_x2.json', dense['commit'])}, {link('accuracy_h200_x4.json', four['commit'])}",
              f"{link('accuracy_experts_first_run_h200.json', first['commit'])}, "
              f"{link('accuracy_experts_h200.json', second['commit'])}")
    rows = []
    for model in dense["models"]:
        others = one(four["models"], model=model["model"])["yoke"]
        found = [one(runs, ranks=ranks)["ratio to transformers"]
                 for runs, ranks in ((model["yoke"], 1), (model["yoke"], 2), (others, 4))]
        rows.append([f"{model['model'].split(',')[0]}, {model['layers']} layers"] +
                    [", ".join(times(ratios[key]) for ratios in found) for key in MEASURES] + [None, states[0]])
    for model, title in EXPERTS_ACCURACY:
        found = [ratios for ratios in (ratios_of(first, model), ratios_of(second, model)) if ratios]
        rows.append([title] + [", ".join(times(ratios[key]) for ratios in found) for key in MEASURES + ("low_kl",)] +
                    [states[1]])
    page.table(["shapes", "mean KL", "mean difference", "largest", "lower quartile of KL", "states"], rows)


def cache_accuracy(results):
    name = "kv_cache_logprobs_qwen3_8b_h200.json"
    found = results.measured(name)
    runs = found["runs"]
    parts = []
    for cache in ("int8", "fp8"):
        pairs = [(a, b) for a, b in zip(runs[f"prefill_{cache}"]["logprobs"], runs["prefill_float16"]["logprobs"])
                 if a is not None]
        moved = [a - b for a, b in pairs]
        rms = (sum(value * value for value in moved) / len(moved)) ** 0.5
        parts.append(f"{cache} {rms:.3f} (at most {max(map(abs, moved)):.2f})")
    return ["accuracy of a KV cache in 8 bits: log-probabilities of Qwen3-8B shapes against a cache in float16",
            link(name, found["commit"]), f"root mean square {', '.join(parts)}"]


FORMATS = {"awq": "awq", "gptq": "gptq, 4 bits", "w8a8": "w8a8", "fp8": "fp8, blocks",
           "gptq-act-order": "gptq, 4 bits, act order"}


def add_loading(page, results):
    names = {"H200": ("load_qwen3_8b_h200.json", "load_qwen3_8b_h200_8_bits.json"),
             "H100": ("load_qwen3_8b_h100_x2.json", "load_qwen3_30b_a3b_h100_x2.json")}
    found, rows = {}, {}
    for machine, files in names.items():
        for name in files:
            found[name] = results.measured(name)
            shapes = "Qwen3-30B-A3B" if "30b" in name else "Qwen3-8B"
            for row in found[name]["rows"]:
                if row["format"] in FORMATS:
                    rows[machine, f"{shapes}, {FORMATS[row['format']]}"] = row
    states = {machine: ", ".join(link(name, found[name]["commit"]) for name in files)
              for machine, files in names.items()}
    page.section("Loading", (
        "From the page cache to one GPU, from the first byte of the weights read to the last layer prepared (goals: 5 "
        "GB of checkpoint a second, 2 GB of anonymous and pinned memory). The H200's machine has 16 processors, the "
        "H100's 32; its state keeps 8-bit weights and act order in their bits. `bench_load.py build/release/bin/yoke "
        "--device cuda`"))
    table = []
    for title in dict.fromkeys(title for _, title in rows):
        cells = [title]
        for machine in names:
            row = rows.get((machine, title))
            cells += [None] * 3 if row is None else [
                f"{row['load_s']:.2f} ({', '.join(f'{value:.2f}' for value in row['runs_s'])})",
                f"{row['gb_per_s']:.1f}", f"{row['anon_mb']} MB"]
        table.append(cells)
    page.table(["shapes, format", f"H200: s (each load), {states['H200']}", "GB/s", "anonymous",
                f"H100: s (each load), {states['H100']}", "GB/s", "anonymous"], table)


QUANTISED = (("demo-fp16", "demo model"), ("gemma-3-270m", "Gemma 3 270M from Q4_K_M"))
METHODS = (("16 bits", None, "16 bits"), ("rtn", 128, "rtn"), ("awq", 128, "awq"))


def add_quantising(page, results):
    name, of_formats = "quantize_demo_cpu.json", "accuracy_formats_cpu.json"
    found, formats = results.measured(name), results.measured(of_formats)
    methods = ", ".join(
        f"{title} {field(found['rows'], 'perplexity', model='demo-fp16', method=method, group_size=group):.4f}"
        for method, group, title in METHODS)
    page.section("Quantising", (
        f"KL divergence from the unquantised model in float32 (`transformers` {formats['transformers']}), and "
        f"perplexity, of text that did not calibrate AWQ: CPU ranks in float32, `bench_accuracy.py`, which describes "
        f"the formats, {link(of_formats, formats['commit'])}. The demo model's perplexity by method, groups of 128, "
        f"more context: {methods} ({link(name, found['commit'])}, `bench_quantize.py`)"))
    of_models = [[row for row in formats["rows"] if row["model"] == model] for model, _ in QUANTISED]
    variants = [row["variant"] for row in max(of_models, key=len)]
    table = []
    for (_, title), of_model in zip(QUANTISED, of_models):
        found = {row["variant"]: f"{row['mean_kl']:.3g}, {row['perplexity']:.3f}" for row in of_model}
        found["unquantised"] = f"{one(of_model, variant='unquantised')['perplexity']:.3f}"
        table.append([f"{title}, {of_model[0]['positions']:,} tokens"] + [found.get(variant) for variant in variants])
    page.table(["KL, perplexity"] + variants, table)


def quantise_time(results):
    name = "quantize_qwen3_8b_h200.json"
    found = results.measured(name)
    return ["quantising Qwen3-8B shapes, one run", link(name, found["commit"]),
            ", ".join(f"{row['seconds']} s (`{row['command']}`)" for row in found["rows"])]


def quantise_kernel(results):
    name = "quantize_kernel_h200.json"
    found = results.measured(name)
    parts = []
    for outputs, inputs, group in ((4096, 4096, 128), (12288, 4096, 128), (28672, 8192, 128), (12288, 4096, 4096)):
        point = one(found["rows"], dtype="bfloat16", outputs=outputs, inputs=inputs, group_size=group)
        fused = median(point["fused_us"])
        title = "as one group" if group == inputs else f"in groups of {group}"
        parts.append(f"{outputs} x {inputs} {title} {number(fused)} us, {percent(point['copy_us'] / fused)} "
                     f"({number(point['passes_us'])})")
    return ["quantising on the GPU in one pass, share of a copy's rate; in brackets separate passes "
            "(`bench_quantize_kernel`)", link(name, found["commit"]), "; ".join(parts)]


def vllm(results):
    name = "vllm_cpu.json"
    found = results.measured(name)
    return [f"checkpoints that Yoke wrote in vLLM {found['vllm']}, float16, {found['cpu']} (`{found['command']}`)",
            link(name, f"recorded at {found['commit']}"),
            f"loads all {found['checkpoints']}, of every family; {found['greedy_tokens_as_transformers']:,} of "
            f"{found['greedy_tokens']:,} greedy tokens are those of `transformers` {found['transformers']} in float32, "
            f"the others near ties; {found['refused_with_yokes_warning']} others, of which `yoke quantize` warns, it "
            f"refuses while it loads"]
