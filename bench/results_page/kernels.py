"""Operations of a GPU: GEMMs, experts, latent attention, all-reduce, attention, sampling."""

from results_page.page import field, link, number, one, percent

TITLES = {"qkv": "qkv 4096 x 6144", "o": "o 4096 x 4096", "gate_up": "gate+up 4096 x 24576",
          "down": "down 12288 x 4096"}


def against_bar(rows, shape, tokens):
    """Ours / cuBLAS with 16-bit weights / goal."""
    point = one(rows, shape=shape, m=tokens)
    if point is None:
        return None
    return " / ".join(number(point[key]) for key in ("us", "cublas_us", "bar_us"))


def add_gemm(page, results):
    kinds = (("W4A16", "linear_h200_f16.json", ("qkv", "o", "gate_up", "down")),
             ("W8A8", "linear_h200_w8a8.json", ("qkv", "gate_up", "down")),
             ("W8A16", "linear_h200_int8.json", ("gate_up",)))
    w4a8, whole, later = (results.measured(name) for name in (
        "linear_h200_w4a8.json", "activations_fp8_h200.json", "activations_h200.json"))
    beside = ", ".join(
        f"{TITLES[row['shape']].split()[0]} {number(row['us'])} ({number(row['w4a16_us'])})" for row in w4a8["rows"]
        if row["m"] == 2048)
    before = field(whole["runs"], "prefill_throughput", batch=64, activations="auto")
    both = ", ".join(
        f"{kind} " + " and ".join(f"{run['prefill_throughput']:,.0f}" for run in later["runs"]
                                  if run["activations"] == kind and run["batch"] == 64) for kind in ("fp8", "int8"))
    files = [results.measured(name) for _, name, _ in kinds]
    met = ", ".join(f"{sum(row['met'] for row in found['rows'])} of {len(found['rows'])}" for found in files)
    bf16, h100 = results.measured("linear_h200_bf16.json"), results.measured("linear_h100_w8a8.json")
    tokens = (1, 8, 16, 32, 64, 256, 1024, 4096)
    page.section("GEMMs", (
        f"us, cold weights in groups of 128, by tokens: ours (W8A8 with quantising x) / cuBLAS with 16-bit weights / "
        f"goal (roofline / 0.75 or roofline + 2.5 us; with 16-bit activations and more than 256 tokens within 5 % of "
        f"cuBLAS). Goals met: {met} points. NVIDIA H200, `bench_linear`, `--format w8a8`, `int8`; bfloat16 "
        f"{link('linear_h200_bf16.json', bf16['commit'])}, W8A8 on H100 "
        f"{link('linear_h100_w8a8.json', h100['commit'])}. `--activations fp8`, "
        f"2,048 tokens with quantising x (W4A16): {beside}, "
        f"{link('linear_h200_w4a8.json', w4a8['commit'])}; Qwen3-8B prefill, 64 x 512: {both} tokens/s "
        f"{link('activations_h200.json', later['commit'])}, W4A16 {before:,.0f} "
        f"{link('activations_fp8_h200.json', whole['commit'])}"))
    rows = []
    for (kind, name, shapes), found in zip(kinds, files):
        rows += [[f"{kind} {TITLES[shape]}"] + [against_bar(found["rows"], shape, n) for n in tokens] +
                 [link(name, found["commit"])] for shape in shapes]
    page.table(["K x N"] + [f"{n:,}" for n in tokens] + ["state"], rows)


def add_experts(page, results):
    grid, newer, single, h100 = (results.measured(name) for name in (
        "experts_h200.json", "experts_98da96f_h200.json", "experts_single_token_h200.json", "experts_h100.json"))
    few, many = (" and ".join(number(field(newer["points"], "layer_us", model="qwen3-30b-a3b", rows=n, run=run))
                              for run in (1, 2)) for n in (64, 2048))
    page.section("Experts", (
        f"us, 4-bit weights in groups of 128 (DeepSeek-V2-Lite: 64), cold; in brackets the share of 4.35 TB/s, or of "
        f"640 TFLOP/s where that is the bound. A layer is routing, both grouped GEMMs and the combination. One run a "
        f"point, `bench_experts --no-dense`. One row is the kernel of a single token, "
        f"{link('experts_single_token_h200.json', single['commit'])}. Qwen3-30B-A3B's layer takes {few} at 64 rows and "
        f"{many} at 2,048 at {link('experts_98da96f_h200.json', newer['commit'])}"))
    rows = []
    for n in (1, 8, 64, 256, 4096):
        cells = [f"{n:,}"]
        for model in ("qwen3-30b-a3b", "deepseek-v2-lite"):
            cells += parts_of_layer(grid["points"], model, n)
        for model in ("qwen3-30b-a3b", "mixtral-8x7b", "deepseek-v2-lite", "deepseek-v3-tp8"):
            found, key = (single, "single_token_us") if n == 1 else (grid, "layer_us")
            cells.append(number(field(found["points"], key, model=model, rows=n)))
        cells.append(number(field(h100["points"], "layer_us", model="qwen3-30b-a3b", rows=n)))
        rows.append(cells)
    page.table(["rows", f"H200 {link('experts_h200.json', grid['commit'])}, Qwen3-30B-A3B: gate and up", "down",
                "V2-Lite: gate and up", "down", "layer: Qwen3-30B-A3B", "Mixtral-8x7B", "DeepSeek-V2-Lite",
                "an eighth of V3", f"H100 {link('experts_h100.json', h100['commit'])}, Qwen3-30B-A3B"], rows)


def parts_of_layer(points, model, rows):
    """gate and up, and down, with their shares of the bound; empty for one row, which one kernel serves"""
    if rows == 1:
        return [None, None]
    point = one(points, model=model, rows=rows)
    return [f"{number(point[f'{part}_us'])} ({percent(point[f'{part}_floor_us'] / point[f'{part}_us'])})"
            for part in ("gate_up", "down")]


FORMATS = {"w4a16": "4 bits", "mxfp4": "MXFP4", "nvfp4": "NVFP4", "w8a16": "8 bits, 16-bit inputs", "w8a8": "W8A8"}


def add_expert_formats(page, results):
    name = "expert_formats_h200.json"
    found = results.measured(name)
    rows = []
    for kind in dict.fromkeys(point["format"] for point in found["points"]):
        rows.append([FORMATS.get(kind, kind)] + [
            number(field(found["points"], "gate_up_and_down_us", model=model, format=kind, rows=n))
            for model in ("qwen3-30b-a3b", "gpt-oss-20b") for n in (1, 64, 256, 4096)])
    page.table([f"gate, up and down, {found['gpu']}, {link(name, found['commit'])}, `bench_expert_formats`"] +
               [f"{model}, {n:,}" for model in ("Qwen3-30B-A3B", "gpt-oss-20b")
                for n in (1, 64, 256, 4096)], rows)


LATENT_LEFT_OUT = ("decode 1 x 1024, 16 heads", "decode 2 x 1024, 16 heads", "decode 4 x 4096, 16 heads",
                   "decode 16 x 1024, 16 heads", "decode 64 x 560, 16 heads", "decode 64 x 1024, 16 heads",
                   "decode 256 x 1024, 16 heads", "decode 1 x 1024, 128 heads")


def add_latent(page, results):
    decode, many, h100 = (results.measured(name) for name in (
        "latent_decode_h200.json", "latent_h200.json", "latent_h100.json"))
    page.section("Latent attention", (
        "us of DeepSeek's sizes, with norm, rotation and the products of `kv_b_proj`; TFLOP/s of products with latent "
        "vectors in decode, with keys and values of each head in prefill. Goals: 80 % at 64 x 4096 with 16 heads, 500 "
        "TFLOP/s with 128. `bench_latent`"))
    rows = []
    for point in decode["points"]:
        if point["point"] not in LATENT_LEFT_OUT:
            rows.append(latent_row(point, h100, "tflops_absorbed"))
    rows.append(latent_row(one(many["points"], point="prefill 1 x 4096, 128 heads"), h100, "tflops_heads"))
    page.table(["case", f"H200, decode {link('latent_decode_h200.json', decode['commit'])}, prefill "
                        f"{link('latent_h200.json', many['commit'])}, us", "of 4.35 TB/s", "TFLOP/s",
                f"H100 {link('latent_h100.json', h100['commit'])}, us"], rows)


def latent_row(point, h100, rate):
    is_decode = rate == "tflops_absorbed"
    return [point["point"], number(point["us"]), percent(point["tb_per_s"] / 4.35) if is_decode else None,
            f"{point[rate]:.0f}", number(field(h100["points"], "us", point=point["point"]))]


GATED_DELTA = ("decode 1", "decode 8", "decode 64", "decode 256", "prefill 1 x 4096", "prefill 8 x 4096")


def add_gated_delta(page, results):
    cells, links = [], []
    for kind in ("decode", "prefill"):
        name = f"gated_delta_{kind}_h200.json"
        found = results.measured(name)
        links.append(f"{kind} {link(name, found['commit'])}")
        for case in GATED_DELTA:
            if case.startswith(kind):
                us = number(field(found["cases"], "us", case=case))
                share = field(found["cases"], "tb_s", case=case) / 4.35
                cells.append(f"{us} ({percent(share)})" if kind == "decode" else us)
    page.table(["gated delta nets, 16 key and 48 value heads of 128, us (share of 4.35 TB/s), `bench_gated_delta`",
                *GATED_DELTA], [[f"H200, {', '.join(links)}", *cells]])


def add_all_reduce(page, results):
    files = [results.measured(name) for name in ("allreduce_h200_x2.json", "allreduce_h200_x4.json")]
    page.section("All-reduce", (
        "us of all-reduce + residual + RMSNorm in one kernel, the better of one-shot and two-shot, beside NCCL alone "
        "and with the norm's kernel; hidden 4096 (2048 at 4 KB), NVLink without multicast, slowest rank. "
        "`bench_allreduce`"))
    rows = []
    for size, title in ((4096, "4 KB"), (65536, "64 KB"), (1048576, "1 MB"), (8388608, "8 MB")):
        cells = [title]
        for found in files:
            us = {what: field(found["cases"], "us", bytes=size, what=what, hidden=2048 if size == 4096 else 4096)
                  for what in ("one-shot + norm", "two-shot + norm", "NCCL", "NCCL, add + norm")}
            fused = min(us["one-shot + norm"], us["two-shot + norm"])
            cells += [f"{fused:.2f}", f"{us['NCCL']:.2f} / {us['NCCL, add + norm']:.2f}"]
        rows.append(cells)
    page.table(["bytes", f"2 x H200, {link('allreduce_h200_x2.json', files[0]['commit'])}: fused", "NCCL / + norm",
                f"4 x H200, {link('allreduce_h200_x4.json', files[1]['commit'])}: fused", "NCCL / + norm"], rows)


ATTENTION = ("decode 1 x 1024", "decode 64 x 1024", "decode 256 x 1024", "decode 64 x 4096",
             "decode 64 x 100..1000 uneven", "prefill 1 x 4096", "prefill 1 x 16384")


def add_attention(page, results):
    names = [f"attention{kind}_{gpu}.json" for gpu in ("h200", "h100") for kind in ("", "_kv_int8", "_kv_fp8")]
    files = [results.measured(name) for name in names]
    page.section("Attention and the KV cache in 8 bits", (
        "us, 32/8 heads of 128, shuffled pages of 16 tokens, cold L2 cache; in brackets the share of 4.35 TB/s or 640 "
        "TFLOP/s. Goals for 16 bits: decode 85 %, 6 us at 1 x 1024; prefill 500 TFLOP/s at 1 x 4096 (275 us), 560 at 1 "
        "x 16384 (3,927 us). `bench_attention --kv-dtype KIND`"))
    rows = []
    for case in ATTENTION:
        cells = [case]
        for index, found in enumerate(files):
            point = one(found["cases"], case=case)
            share = f" ({percent(point['efficiency'])})" if index < 3 else ""
            cells.append(number(point["us"]) + share)
        rows.append(cells)
    heads = [f"{kind}, {link(name, found['commit'])}" for kind, name, found in
             zip(("H200: 16 bits", "int8", "fp8", "H100: 16 bits", "int8", "fp8"), names, files)]
    page.table(["case"] + heads, rows)


WIDE_CASES = ("decode 1 x 2048", "decode 64 x 2048", "decode 1 x 8192", "decode 64 x 8192", "decode 256 x 8192",
              "prefill 8 x 4096")


def add_wide_attention(page, results):
    """heads of 256 next to heads of 128"""
    names = [f"attention_heads_256{kind}_h200.json" for kind in ("", "_kv_int8", "_kv_fp8")]
    files = [results.measured(name) for name in names]
    page.paragraph(
        "Heads of 256 (16/4 have the bytes and products of 32/8 of 128): 16 bits; int8; fp8. `bench_attention --filter "
        "hd`")
    rows = []
    for layout in ("32/8 hd 128", "16/4 hd 256", "32/2 hd 256 gates"):
        cells = [layout.replace("hd", "heads of")]
        for case in WIDE_CASES:
            points = [one(found["cases"], case=f"{case} {layout}") for found in files]
            cells.append("; ".join(f"{number(point['us'])} ({percent(point['efficiency'])})" for point in points)
                         if all(points) else None)
        rows.append(cells)
    links = ", ".join(link(name, found["commit"]) for name, found in zip(names, files))
    page.table([f"us, {links}"] + list(WIDE_CASES), rows)


def add_sampling(page, results):
    h200, h100 = results.measured("sample_h200.json"), results.measured("sample_h100.json")
    page.section("Sampling", (
        "us in a step, from the end of the kernel before until the next one that the host launches; the kernel alone. "
        "Rows of 151,936 logits; all-greedy steps take the best logits of each rank's share. `bench_sample`"))
    h200_state, h100_state = link("sample_h200.json", h200["commit"]), link("sample_h100.json", h100["commit"])
    rows = []
    for found, point, title in ((h200, "best of 151936", f"H200 {h200_state}, best logits"),
                                (h100, "top_k 20, top_p 0.95", f"H100 {h100_state}, top_k 20, top_p 0.95"),
                                (h100, "top_p 0.95", f"H100 {h100_state}, top_p 0.95")):
        rows.append([title] + [sampled(one(found["points"], point=point, rows=n)) for n in (1, 64, 256)])
    page.table(["what", "1 row", "64 rows", "256 rows"], rows)


def sampled(point):
    return f"{number(point['step_us'])}; {number(point['kernel_us'])}"
