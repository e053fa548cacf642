"""The server, large batches, the host, the machine, CPU ranks, tests on GPUs."""

from statistics import median

from results_page import models
from results_page.page import link, number, one, percent


def add_serving(page, results):
    name = "serve_qwen3_8b_h200_x1.json"
    found = results.measured(name)
    late = results.measured("serve_256_clients_h200.json")
    before, after = (median(late[state]["output_throughput"]) for state in ("before", "after"))
    page.section("Serving", (
        f"Server (`yoke serve`, load by `bench_serve.py`) / engine alone (`bench_clients`), Qwen3-8B shapes, 128 "
        f"tokens in and out. Goals: 97 % of the engine's tokens/s at 256 clients; at 8 a median time to first token "
        f"(TTFT) at most 1 ms later. {found['gpu']}, {link(name, found['revision'])}; at "
        f"{link('serve_256_clients_h200.json', late['commit'])} 256 clients get {number(after)} tokens/s "
        f"({number(before)} just before the checks in front of libmicrohttpd)"))
    rows = []
    for clients, runs in (("1", "1_clients_turn_1"), ("8, lengths of 64 to 192", "ttft_8_clients_turn_1"),
                          ("64", "64_clients"), ("256", "256_clients")):
        pair = found[f"server_{runs}"], found[f"engine_{runs}"]
        rows.append([clients, " / ".join(number(run["output_throughput"]) for run in pair)] +
                    [" / ".join(f"{run[key]:.2f}" for run in pair) for key in ("median_ttft_ms", "median_tpot_ms")])
    page.table(["clients", "output tokens/s", "median TTFT, ms", "median TPOT, ms"], rows)


def soak(results, name, where):
    found = results.measured(name)
    rounds = found["rounds"]
    memory = [one_round["resident_mib"] for one_round in rounds[len(rounds) // 2:]]
    spread = " to ".join(f"{value:,.2f}" for value in sorted({min(memory), max(memory)}))
    return [f"random clients and one failing rank, {where} (`tests/e2e/server_soak.py`)", link(name, found["commit"]),
            f"{rounds[-1]['requests']:,} requests in {rounds[-1]['end_s']:.0f} s, every one answered as expected or "
            f"refused as it may be, the longest in {found['longest_request_s']:.1f} s; resident {spread} MiB in the "
            f"second half"]


def large_batch(results):
    name = "bench_batch_1024_h200.json"
    found = results.measured(name)
    parts = found["time_us"]
    work = (parts["host"] + parts["launch_gap"]) / parts["step"]
    return ["1,024 sequences of Qwen3-8B shapes, 128 tokens in, 256 out", link(name, found["commit"]),
            f"{number(found['output_throughput'])} output tokens/s, {number(found['decode_throughput'])} while all "
            f"decode; the GPU waits {100 * found['between_share']:.2f} % between steps (goal: 1 %), in timed decode "
            f"steps {100 * work:.2f} %"]


def shared_prefix(results):
    names = [f"bench_shared_prefix{kind}_h200.json" for kind in ("", "_no_reuse")]
    shared, alone = (results.measured(name) for name in names)
    return ["256 requests of 4,000 tokens that share 3,600", link(names[0], shared["commit"]),
            f"{shared['duration']:.2f} s; without reuse ({link(names[1], alone['commit'])}) {alone['duration']:.2f} s, "
            f"{alone['duration'] / shared['duration']:.1f} times (goal: 5)"]


def two_processes(results, name):
    found = results.measured(name)

    def change(batch, phase):
        two, alone = (one(found["runs"], processes=n, batch=batch, phase=phase)["tokens_per_s"] for n in (2, 1))
        return f"{100 * (two / alone - 1):.1f}"

    parts = [f"batch {batch}: {change(batch, 'decode')} and {change(batch, 'prefill')} %" for batch in (1, 64, 256)]
    return link(name, found["commit"]), "; ".join(parts)


def processes(results):
    slots, nccl = (two_processes(results, name) for name in ("processes_h200_x2.json", "processes_nccl_h200_x2.json"))
    return ["Qwen3-8B shapes on two H200s in two processes against one process, decode and prefill: with stores into "
            "peers' memory / with NCCL alone (`--disable-custom-all-reduce`)", f"{slots[0]} / {nccl[0]}",
            f"{slots[1]} / {nccl[1]} (goal: 3 %)"]


def gpt_oss(results):
    name, part = "models_2c1897db_h200.json", "gpt-oss-120b --layers 12"
    found = results.measured(name)

    def decode(model):
        runs = [one(found["runs"], model=model, batch=batch) for batch in models.BATCHES]
        return ", ".join(f"{number(run['decode_throughput'])} "
                         f"({percent(run['decode_throughput'] / run['decode_limit'])})" for run in runs)

    def whole(run):  # 36 layers take three times as long as 12
        times = run["time_us"]
        once = sum(times[key] for key in ("lm_head", "sampling", "launch_gap", "host"))
        return number(run["batch"] * 1e6 / (once + 3 * (times["step"] - once)))

    steps = ", ".join(whole(one(found["runs"], model=part, batch=batch)) for batch in models.BATCHES)
    prefill = one(found["runs"], model="gpt-oss-20b", batch=64)["prefill_throughput"]
    return ["gpt-oss shapes, MXFP4: decode at batch 1, 8, 32, 64, 256, tokens/s (share of the limit, for routers that "
            "choose all experts equally often); prefill at 64; Qwen3-30B-A3B in the same run",
            link(name, found["commit"]),
            f"20b: {decode('gpt-oss-20b')}; prefill {number(prefill)}. Qwen3-30B-A3B: {decode('qwen3-30b-a3b')}. "
            f"120b, 12 of 36 layers: {decode(part)}; all 36, computed from them: {steps}"]


def long_prompt(results):
    name = "long_prompt_h200.json"
    found = results.measured(name)
    runs = {n: one(found["runs"], long_prefill_token_threshold=n) for n in (0, 512, 256, 128, 64, -1)}
    names = {0: "all", -1: "by the time of steps (the default)"}
    parts = [f"{names.get(n, n)}: {run['median_itl_ms']:.1f}, {run['p99_itl_ms']:.1f} ms; "
             f"{run['long_prompt_ttft_ms'] / 1000:.2f} s" for n, run in runs.items()]
    return ["64 decodes of Qwen3-8B shapes beside a prompt of 32,000 tokens, by its rows of a step "
            "(`--long-prefill-token-threshold`): median and p99 between tokens; the prompt's first token",
            link(name, found["commit"]), f"{'; '.join(parts)} (goal: p99 at most twice the median)"]


def adapters(results):
    name = "adapters_h200.json"
    found = results.measured(name)
    shares = [percent(median(run["with_eight_adapters"]) / run["without"]) for run in found["runs"]]
    batches = ", ".join(str(run["batch"]) for run in found["runs"])
    return ["eight adapters of rank 16 in turn, Qwen3-8B shapes: share of the decode rate without",
            link(name, found["commit"]), f"batch {batches}: {', '.join(shares)} (goal at 64: 85 %)"]


def batch_invariant(results):
    name = "batch_invariant_h200_x2.json"
    found = results.measured(name)

    def share(ranks, batch, key):
        bound, free = (one(found["runs"], ranks=ranks, batch=batch, batch_invariant=kind)[key]
                       for kind in (True, False))
        return percent(bound / free)

    parts = [f"{'two H200s' if ranks == 2 else 'one H200'}, batch {', '.join(map(str, batches))}: decode "
             f"{', '.join(share(ranks, batch, 'decode_throughput') for batch in batches)}, prefill "
             f"{', '.join(share(ranks, batch, 'prefill_throughput') for batch in batches)}"
             for ranks, batches in ((1, (1, 8, 64, 256)), (2, (1, 64)))]
    return ["Qwen3-8B shapes with `--batch-invariant`, share of the rate without", link(name, found["commit"]),
            f"{'; '.join(parts)} (goal: 85 %)"]


def fused_norms(results):
    name = "models_e9839d88_h200_x2.json"
    found = results.measured(name)

    def rates(ranks):
        runs = sorted((run for run in found["runs"] if run["ranks"] == ranks), key=lambda run: run["batch"])
        return (f"batch {', '.join(str(run['batch']) for run in runs)}: "
                f"{', '.join(number(run['decode_throughput']) for run in runs)} tokens/s")

    prefill = " and ".join(number(one(found["runs"], ranks=ranks, batch=64)["prefill_throughput"]) for ranks in (1, 2))
    return ["Qwen3-8B shapes, 512 tokens in, 100 out; batch 1 on one H200 has norms in its GEMMs",
            link(name, found["commit"]), f"one H200, {rates(1)}; two, {rates(2)}; prefill at 64 {prefill}"]


def single_row(results):
    """One GPU, then two."""
    names = ("bench_single_row_h200.json", "bench_single_row_h200_x2.json")
    found = [results.measured(name) for name in names]

    def figures(one):
        apart, parts = one["separate_kernels"], one["time_us"]
        return (f"{one['decode_throughput']:.1f} tokens/s, {one['output_throughput']:.1f} with prefill (separate "
                f"kernels in the same run: {apart['decode_throughput']:.1f} and {apart['output_throughput']:.1f}); of "
                f"a step of {number(parts['step'])} us the layers take {number(parts['decode_layers'])}, lm_head "
                f"{parts['lm_head']:.1f}")

    return ["the same at batch 1, with all layers in one kernel, on one and two H200s",
            ", ".join(link(name, one["commit"]) for name, one in zip(names, found, strict=True)),
            "; two: ".join(map(figures, found))]


def single_row_parts(results):
    """Sequences of several lengths; the first run has the present kernel."""
    name = "bench_single_row_parts_h200.json"
    found = results.measured(name)

    def figures(run):
        parts = run["time_us"]
        products = sum(parts[part] for part in ("gemm_qkv", "gemm_o", "gemm_gate_up", "gemm_down"))
        return (f"after {run['input_len']:,} tokens {run['decode_throughput']:.0f} tokens/s, in a step of "
                f"{number(parts['step'])} us GEMMs {number(products)}, attention {number(parts['attention'])}, lm_head "
                f"{number(parts['lm_head'])}, sums and norms {number(parts['other_kernels'])}")

    return ["parts of a step at batch 1 in one kernel, another H200; from the second figure on a kernel that is 1.3 % "
            "faster", link(name, found["commit"]), "; ".join(map(figures, found["runs"]))]


def constraints(results):
    name = "constraints_h200.json"
    found = results.measured(name)

    def changes(clients, key):
        free, bound = ([run[key] for run in found["runs"] if (run["clients"], run["constrained"]) == (clients, kind)]
                       for kind in (False, True))
        return list(zip(free, bound, strict=True))

    added = " and ".join(f"{1000 * (bound - free):.0f}" for free, bound in changes(1, "median_itl_ms"))
    gap, rate = (" and ".join(f"{100 * (bound / free - 1):.1f}" for free, bound in changes(64, key))
                 for key in ("median_itl_ms", "output_throughput"))
    return ["every request constrained by a JSON schema, vocabulary of 151,936 ids", link(name, found["commit"]),
            f"1 client: {added} us more between tokens (goal: 50); 64 clients: {gap} % more between tokens, output "
            f"tokens/s {rate} % (goal: 3 %)"]


def host_work(results):
    name = "host_step_xeon.json"
    found = results.measured(name)
    cold, warm = found["decode_step_of_1024_sequences_us"].values()
    return [f"host work of a decode step of 1,024 sequences, {found['cpu']} (`bench_engine_step`)",
            link(name, found["commit"]), f"{cold[0]} to {cold[1]} us with caches emptied between steps, {warm[0]} to "
            f"{warm[1]} with caches as they are"]


def one_row(*rows):
    return [" / ".join(cells) for cells in zip(*rows, strict=True)]


def add_single_figures(page, results):
    page.section("Single figures", "One H200 unless the row says otherwise; the files have the commands.")
    page.table(["what", "state", "result"], [
        one_row(large_batch(results), fused_norms(results), single_row(results), single_row_parts(results)),
        shared_prefix(results), processes(results), gpt_oss(results), long_prompt(results), adapters(results),
        one_row(batch_invariant(results), constraints(results)),
        one_row(soak(results, "soak_server_h200_x2.json", "two H200s"),
                soak(results, "soak_server_cpu.json", "two CPU ranks, 2 processors that other programs use")),
        host_work(results), machine_row(results), models.cache_accuracy(results),
        one_row(models.quantise_time(results), models.quantise_kernel(results)), convert_row(results),
        prefill_on_two(results), models.vllm(results)])


def machine_row(results):
    name = "machine_h200_x2.json"
    found = results.measured(name)

    def rates(unit, digits, **wanted):
        values = [row["rate"] / unit for row in found["rows"]
                  if all(row[key] == value for key, value in wanted.items())]
        return " to ".join(dict.fromkeys(f"{value:.{digits}f}" for value in (min(values), max(values))))

    def all_reduce(method, size):
        return one(found["rows"], kind="all_reduce", method=method, bytes=size)["us"]

    memory, gemm = ({method: rates(unit, digits, kind=kind, method=method) for method in methods}
                    for kind, methods, unit, digits in (("memory", ("read", "copy"), 1e12, 2),
                                                        ("gemm", ("plain", "awq"), 1e12, 0)))
    links = {method: rates(1e9, 0, kind="link", method=method) for method in ("copy", "both ways")}
    return [f"{found['gpu']} (`{found['command']}`)", link(name, found["commit"]),
            f"reads {memory['read']} TB/s, copies {memory['copy']}; cuBLAS {gemm['plain']} TFLOP/s, W4A16 "
            f"{gemm['awq']}; links {links['copy']} GB/s one way, {links['both ways']} both; all-reduce "
            f"{all_reduce('yoke', 1024):.1f} us at 1 KiB (NCCL {all_reduce('nccl', 1024):.1f}), "
            f"{all_reduce('yoke', 1048576):.1f} at 1 MiB ({all_reduce('nccl', 1048576):.1f})"]


def convert_row(results):
    name = "convert_qwen3_0_6b_xeon.json"
    found = results.measured(name)
    parts = [f"`{row['command']}` {' to '.join(f'{value:.2f}' for value in row['seconds'])} s, "
             f"{row['anonymous_mib']} MiB" for row in found["rows"]]
    return [f"converting Qwen3-0.6B shapes (0.54 GB), {found['cpu']}; anonymous memory without the mapped files",
            link(name, found["commit"]), "; ".join(parts)]


def add_cpu(page, results):
    name = "cpu_decode_xeon_16_threads.json"
    found = results.measured(name)
    page.section("CPU ranks", (
        f"Qwen3-0.6B shapes, tokens/s at batch 1; in brackets the weights' bytes as a share of a plain read of memory "
        f"by as many threads (goal: 60 %). llama.cpp: Q4_0 of the same shapes. 16 processors of a Xeon (AVX-512, a "
        f"virtual machine), measured once, {link(name, found['revision'])}, which has the commands"))
    rows = []
    for threads in (2, 8, 16):
        points = [one(found["yoke"], threads=threads, ranks=ranks, batch=1) for ranks in (1, 2, 4)]
        points.append(one(found["llama_cpp"]["points"], threads=threads))
        cells = [None if point is None else
                 f"{number(point['decode_tokens_per_s'])} "
                 f"({100 * point['weight_bytes_a_second_over_plain_read']:.0f} %)" for point in points]
        rows.append([threads, number(found["read_gb_s"][f"{threads} threads"])] + cells +
                    [", ".join(number(point["prefill_tokens_per_s"]) for point in points[:3] if point),
                     number(points[3]["prefill_tokens_per_s"])])
    page.table(["threads", "plain read, GB/s", "1 rank", "2 ranks", "4 ranks", "llama.cpp",
                "prefill of 256: 1, 2, 4 ranks", "llama.cpp"], rows)


def prefill_on_two(results):
    name = "cpu_prefill_xeon_2_threads.json"
    found = results.measured(name)
    prefill, decode = found["prefill_tokens_per_s"], found["decode_tokens_per_s"]
    parts = []
    for title, ours, theirs in (
            ("prefill of 256 tokens", prefill["256 tokens, 1 rank"], prefill["256 tokens, llama.cpp"]),
            ("of 2,048", prefill["2048 tokens, 1 rank"], prefill["2048 tokens, llama.cpp"]),
            ("decode at batch 1", decode["1 sequence, 256 tokens in, 32 out, 1 rank"], decode["llama.cpp, 32 out"])):
        parts.append(f"{title} {number(median(ours['now']))} (llama.cpp {number(median(theirs))})")
    batch = decode["8 sequences, 64 tokens in, 32 out, 1 rank"]["now"]
    return ["CPU rank on two processors of a Xeon, Qwen3-0.6B shapes, tokens/s, medians of three, with faster GEMMs of "
            "several rows than under [CPU ranks](#cpu-ranks)", link(name, found["revision"]),
            f"{', '.join(parts)}, at batch 8 {number(median(batch))}"]


def add_tests(page, results):
    found = results.load("gpu_tests.json")
    page.section("GPU tests", (
        f"The commit at which each last passed on H200s or H100s, by `scripts/gpu_tests.sh` and "
        f"`scripts/gpu_sanitize.sh`, {link('gpu_tests.json')}. Never run: {'; '.join(found['never'])}."))
    page.table(["test", "1 or 2 GPUs", "3 or 4 GPUs"],
               [[row["test"], row["1_or_2"], row["3_or_4"]] for row in found["passed"]])
