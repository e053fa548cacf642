#!/usr/bin/env python3
"""Drives a server with OpenAI's interface and reports latencies and rates under load. Needs aiohttp only.

  yoke serve --model tests/models/demo --device cpu &
  bench/bench_serve.py --vocab-size 512 --clients 64 --requests 256 --input-len 32 --output-len 64

Closed loop: --clients N keeps N requests running. Open loop: --request-rate R sends R a second on average, independent
of the ends of earlier ones. Lengths and arrivals are functions of --seed and the request's number; bench_clients runs
the same closed loop against the engine without a server. Every stream must have exactly the requested number of tokens,
by its usage and by its number of events, else it counts as failed and the exit code is 1.

Bytes of a stream are timestamped when they arrive, kept, and parsed after all requests have ended. The figures and
their names are those of `vllm bench serve`: TTFT, time to first token; TPOT, the mean time of each further one; ITL,
between one event and the next; E2EL, from the request to the last token.
"""

import argparse
import asyncio
import json
import math
import multiprocessing
import os
import random
import statistics
import sys
import time

import aiohttp

WORDS = ("the of and to in is was for on that with as at by from it this are be an or which one had not but have "
         "were they all their two more when there can other new some could time these may then do first any my now "
         "such like our over man me even most made after also did many before must").split()
PERCENTILES = (90, 95, 99)
METRICS = ("ttft", "tpot", "itl", "e2el")
DRAW_INPUT, DRAW_OUTPUT, DRAW_PREFIX = range(3)  # streams of the generator; bench_clients has the first two


# ---- The work: lengths, tokens and arrival of request number i

def uniform(seed, stream, position):
    """Philox4x32-10, the generator of runtime/base/rng.h: a value in [0, 1)."""
    mask = 0xFFFFFFFF
    c0, c1, c2, c3, k0, k1 = position, stream, 0, 0, seed & mask, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = (b >> 32) ^ c1 ^ k0, b & mask, (a >> 32) ^ c3 ^ k1, a & mask
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return (c0 >> 8) / (1 << 24)


def length(options, mean, number, stream):
    """Uniform from mean * (1 - ratio) to mean * (1 + ratio)."""
    low = max(math.floor(mean * (1 - options.range_ratio)), 1)
    high = math.ceil(mean * (1 + options.range_ratio))
    return low + int(uniform(options.seed, stream, number) * (high - low + 1))


def prompt_of(options, run, number):
    """Token ids, or the same number of words. Apart from the prefix, prompts differ between runs, and between starts of
    this program, because the server may still cache the prefixes of an earlier start."""
    def draw(generator, count):
        if options.prompt == "ids":
            return [generator.randrange(options.vocab_size) for _ in range(count)]
        return [generator.choice(WORDS) for _ in range(count)]

    own = draw(random.Random(f"{options.salt} {run} {number}"), length(options, options.input_len, number, DRAW_INPUT))
    if uniform(options.seed, DRAW_PREFIX, number) < options.prefix_share:
        own = draw(random.Random(f"{options.salt} prefix"), options.prefix_len) + own
    return own if options.prompt == "ids" else " ".join(own)


def body_of(options, run, number):
    prompt = prompt_of(options, run, number)
    n_output = length(options, options.output_len, number, DRAW_OUTPUT)
    body = {"model": options.model, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True,
            "temperature": options.temperature}
    if options.endpoint.endswith("/chat/completions"):
        body |= {"messages": [{"role": "user", "content": prompt}], "max_completion_tokens": n_output}
    else:
        body |= {"prompt": prompt, "max_tokens": n_output}
    return json.dumps(body | options.extra_body).encode(), n_output


def arrivals_of(options):
    """Seconds after the start: gaps are gamma distributed; burstiness 1 is Poisson, inf constant."""
    generator, now, arrivals = random.Random(f"{options.seed} arrivals"), 0.0, []
    for _ in range(options.requests):
        arrivals.append(now)
        mean = 1 / options.request_rate
        now += mean if math.isinf(options.burstiness) else generator.gammavariate(options.burstiness,
                                                                                mean / options.burstiness)
    return arrivals


# ---- One stream

def events_of(chunks):
    """(time, data) of each server-sent event of [(time, bytes)]; the time is that of its last byte."""
    rest = b""
    for arrived_s, data in chunks:
        *blocks, rest = (rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        for block in blocks:
            lines = [line[5:].strip() for line in block.split(b"\n") if line.startswith(b"data:")]
            if lines:  # other lines are comments, which begin with ":", and unused fields
                yield arrived_s, b"\n".join(lines)


def is_token(choice):
    """In a chat, the role precedes the first token, in a separate event."""
    delta = choice.get("delta")
    return delta is None or bool(delta.get("content")) or "role" not in delta or choice.get("finish_reason") is not None


def read_stream(chunks):
    """(times of tokens, whether the last event only ends the stream, usage, whether [DONE] came). Raises ValueError."""
    times, usage, is_done, is_bare_end = [], None, False, False
    for arrived_s, data in events_of(chunks):
        if data == b"[DONE]":
            is_done = True
            break
        event = json.loads(data)
        if "error" in event:
            raise ValueError(f"an error in the stream: {event['error'].get('message', event['error'])}")
        usage = event.get("usage") or usage
        for choice in event.get("choices", ())[:1]:
            if is_token(choice):
                times.append(arrived_s)
                text = choice["delta"].get("content") if "delta" in choice else choice.get("text")
                is_bare_end = choice.get("finish_reason") is not None and not text
    return times, is_bare_end, usage, is_done


def judge(options, stream):
    """A request's figures, or {"error": reason}."""
    sent_s, n_wanted, chunks, error = stream
    if error:
        return {"error": error}
    try:
        times, is_bare_end, usage, is_done = read_stream(chunks)
    except ValueError as problem:
        return {"error": str(problem)}
    n_tokens = usage["completion_tokens"] if usage else None
    if is_bare_end and len(times) == (n_tokens or 0) + 1:
        times.pop()  # an end without a token
    n_events = len(times)
    if not is_done:
        return {"error": f"the stream ended without [DONE], after {n_events} events"}
    if n_tokens != n_wanted and not (options.extra_body.get("ignore_eos") is False and n_tokens):
        return {"error": f"{n_wanted} tokens asked for, usage says {n_tokens}"}
    if n_events != n_tokens and not (options.allow_merged and 0 < n_events < n_tokens):
        return {"error": f"{n_tokens} tokens in {n_events} events"}
    return {"input": usage["prompt_tokens"], "output": n_tokens, "sent_s": sent_s, "end_s": times[-1],
            "ttft": times[0] - sent_s, "e2el": times[-1] - sent_s, "events": n_events,
            "tpot": (times[-1] - times[0]) / (n_tokens - 1) if n_tokens > 1 else None,
            "itl": [b - a for a, b in zip(times, times[1:])]}


# ---- A process of clients

class Clients:
    def __init__(self, options, session, shared):
        self.options, self.session, self.shared = options, session, shared
        self.streams = []
        self.headers = {"Content-Type": "application/json"}
        if options.api_key:
            self.headers["Authorization"] = f"Bearer {options.api_key}"

    async def one(self, run, number):
        body, n_output = body_of(self.options, run, number)
        chunks, error = [], None
        sent_s = time.perf_counter()
        try:
            async with self.session.post(self.options.base_url + self.options.endpoint, data=body,
                                         headers=self.headers) as response:
                if response.status == 200:
                    async for data in response.content.iter_any():
                        chunks.append((time.perf_counter(), data))
                else:
                    error = f"status {response.status}: {(await response.text())[:300]}"
        except (aiohttp.ClientError, OSError) as problem:
            error = f"{type(problem).__name__}: {problem}"
        self.streams.append((sent_s, n_output, chunks, error))

    async def keep_busy(self, run):
        """One client of the closed loop: takes the next free request until none is left."""
        while True:
            with self.shared["next"].get_lock():
                number = self.shared["next"].value
                self.shared["next"].value += 1
            if number >= self.shared["end"].value:
                return
            await self.one(run, number)

    async def at(self, due_s, run, number, places):
        await asyncio.sleep(due_s - time.perf_counter())
        self.late_s = max(self.late_s, time.perf_counter() - due_s)
        async with places:
            await self.one(run, number)

    async def run(self, run, start_s, arrivals, place, n_clients):
        """Judged requests of this process, and the largest delay of a send."""
        self.streams, self.late_s = [], 0.0
        if arrivals is None:
            tasks = [self.keep_busy(run) for _ in range(n_clients)]
        else:
            places = asyncio.Semaphore(n_clients or len(arrivals))
            tasks = [self.at(start_s + arrivals[number], run, number, places)
                     for number in range(place, len(arrivals), self.options.processes)]
        await asyncio.gather(*tasks)
        return [judge(self.options, stream) for stream in self.streams], self.late_s


async def serve_runs(options, place, pipe, shared):
    """Executes the parent's commands until it sends None."""
    n_clients = len(range(place, options.clients or 0, options.processes))
    connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=3600)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None),
                                     auto_decompress=False, read_bufsize=1 << 20) as session:
        clients = Clients(options, session, shared)
        while (task := pipe.recv()) is not None:
            run, start_s, arrivals = task
            await asyncio.sleep(start_s - time.perf_counter())
            pipe.send(await clients.run(run, start_s, arrivals, place, n_clients))


def process_main(options, place, pipe, shared):
    if options.cpu_list:
        os.sched_setaffinity(0, options.cpu_list[place % len(options.cpu_list)::options.processes] or options.cpu_list)
    asyncio.run(serve_runs(options, place, pipe, shared))


class Processes:
    """The clients' processes, which live through all runs and keep their connections."""

    def __init__(self, options):
        self.options = options
        context = multiprocessing.get_context("fork")
        self.shared = {"next": context.Value("q", 0), "end": context.Value("q", 0)}
        self.pipes, self.processes = [], []
        for place in range(options.processes):
            pipe, end = context.Pipe()
            process = context.Process(target=process_main, args=(options, place, end, self.shared), daemon=True)
            process.start()
            end.close()
            self.pipes.append(pipe)
            self.processes.append(process)

    def run(self, run, n_requests, arrivals):
        self.shared["next"].value, self.shared["end"].value = 0, n_requests
        start_s = time.perf_counter() + 0.05  # all processes have received the start time by then
        for pipe in self.pipes:
            pipe.send((run, start_s, arrivals))
        answers = [pipe.recv() for pipe in self.pipes]
        return [request for requests, _ in answers for request in requests], max(late_s for _, late_s in answers)

    def close(self):
        for pipe, process in zip(self.pipes, self.processes):
            pipe.send(None)
            process.join()


# ---- Figures

def percentile(ordered, share):
    """Percentile of sorted values, linear between neighbours."""
    place = (len(ordered) - 1) * share / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def figures_of(name, values_s):
    values = sorted(value * 1000 for value in values_s) or [0.0]
    figures = {f"mean_{name}_ms": statistics.fmean(values), f"median_{name}_ms": statistics.median(values),
               f"std_{name}_ms": statistics.pstdev(values)}
    return figures | {f"p{share}_{name}_ms": percentile(values, share) for share in PERCENTILES}


def summary_of(requests, late_s, server_cpu_s):
    good = [request for request in requests if "error" not in request]
    duration = max((r["end_s"] for r in good), default=0) - min((r["sent_s"] for r in good), default=0) or math.inf
    n_input, n_output = sum(r["input"] for r in good), sum(r["output"] for r in good)
    summary = {"duration": duration if good else 0.0, "completed": len(good), "failed": len(requests) - len(good),
               "total_input_tokens": n_input, "total_output_tokens": n_output,
               "total_output_events": sum(r["events"] for r in good),
               "request_throughput": len(good) / duration, "output_throughput": n_output / duration,
               "total_token_throughput": (n_input + n_output) / duration, "max_late_ms": late_s * 1000}
    for name in METRICS:
        values = [r[name] for r in good if r[name] is not None]
        summary |= figures_of(name, [gap for gaps in values for gap in gaps] if name == "itl" else values)
    if server_cpu_s is not None:
        summary["server_cpu_s_per_1000_output_tokens"] = server_cpu_s / n_output * 1000 if n_output else 0.0
    return summary


def report_of(options, runs):
    """Medians over the runs under the names of a single run, each field's spread (largest less smallest), and the
    runs."""
    report = {"date": time.strftime("%Y%m%d-%H%M%S"), "backend": "openai", "endpoint": options.endpoint,
              "model_id": options.model, "num_prompts": options.requests, "max_concurrency": options.clients,
              "request_rate": options.request_rate or "inf", "burstiness": str(options.burstiness),
              "input_len": options.input_len, "output_len": options.output_len, "range_ratio": options.range_ratio,
              "prefix_len": options.prefix_len, "prefix_share": options.prefix_share, "processes": options.processes}
    report |= {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    return report | {"spread": {name: max(run[name] for run in runs) - min(run[name] for run in runs)
                                for name in runs[0]}, "runs": runs}


def print_table(report):
    print(f"{'':34} {'median':>12} {'spread':>12}   over {len(report['runs'])} runs")
    for name in report["runs"][0]:
        print(f"{name:34} {report[name]:12.2f} {report['spread'][name]:12.2f}")


# ---- The program

def cpu_seconds(pid):
    """Processor seconds of a process with all its threads."""
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(options, processes):
    """The measured runs, after the warm-up."""
    if options.warmup:
        report_failures(processes.run(0, options.warmup, None if options.clients else [0.0] * options.warmup)[0])
    runs, all_good = [], True
    for run in range(1, options.repeats + 1):
        arrivals = arrivals_of(options) if options.request_rate else None
        before_s = cpu_seconds(options.server_pid) if options.server_pid else None
        requests, late_s = processes.run(run, options.requests, arrivals)
        server_cpu_s = cpu_seconds(options.server_pid) - before_s if options.server_pid else None
        all_good = report_failures(requests) and all_good
        runs.append(summary_of(requests, late_s, server_cpu_s))
    return runs, all_good


def report_failures(requests):
    """Whether no request failed."""
    causes = {}
    for request in requests:
        if "error" in request:
            causes[request["error"]] = causes.get(request["error"], 0) + 1
    for cause, count in sorted(causes.items(), key=lambda item: -item[1])[:10]:
        print(f"bench_serve: {count} of {len(requests)} requests failed: {cause}", file=sys.stderr)
    return not causes


async def served_model(options):
    headers = {"Authorization": f"Bearer {options.api_key}"} if options.api_key else {}
    async with aiohttp.ClientSession(headers=headers) as session:
        async with session.get(options.base_url + "/v1/models") as response:
            if response.status != 200:
                raise ValueError(f"status {response.status}: {(await response.text())[:300]}")
            return json.loads(await response.text())["data"][0]["id"]


def cpu_list(text):
    """Processors in the form of taskset: 0-3,8"""
    cpus = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def number(least, most=math.inf, kind=float, above=False):
    """A parser of numbers within a range."""
    def parse(text):
        value = kind(text)
        if not least <= value <= most or (above and value == least):
            raise argparse.ArgumentTypeError(f"expected a number {'above' if above else 'from'} {least}"
                                             f"{'' if most == math.inf else f' to {most}'}, found {text}")
        return value
    parse.__name__ = kind.__name__
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    count, share = number(1, kind=int), number(0, 1)
    add = parser.add_argument
    add("--base-url", default="http://127.0.0.1:8000", metavar="URL", help="of the server (%(default)s)")
    add("--endpoint", default="/v1/completions", choices=("/v1/completions", "/v1/chat/completions"))
    add("--model", help="its name (the first of /v1/models)")
    add("--api-key", default=os.environ.get("YOKE_API_KEY"), metavar="KEY", help="(YOKE_API_KEY)")
    add("--clients", type=count, metavar="N", help="closed loop; beside --request-rate, the most requests under way")
    add("--request-rate", type=number(0, above=True), metavar="R", help="open loop: requests a second")
    add("--burstiness", type=number(0, above=True), default=1.0, metavar="B",
        help="shape of the gaps between arrivals: 1 is Poisson, below is burstier, inf is constant (%(default)s)")
    add("--requests", type=count, default=256, metavar="N", help="of each run (%(default)s)")
    add("--input-len", type=count, default=512, metavar="N", help="tokens of a prompt; words of a text (%(default)s)")
    add("--output-len", type=count, default=128, metavar="N", help="tokens of an answer (%(default)s)")
    add("--range-ratio", type=number(0, 1), default=0.0, metavar="P", help="lengths vary evenly by this share of them")
    add("--prefix-len", type=number(0, kind=int), default=0, metavar="N", help="tokens that prompts begin with alike")
    add("--prefix-share", type=share, default=1.0, metavar="P", help="share of the requests with the prefix")
    add("--prompt", choices=("ids", "text"), help="random token ids (completions) or words (chat)")
    add("--vocab-size", type=count, default=1000, metavar="N", help="token ids are below it (%(default)s)")
    add("--temperature", type=number(0), default=0.0, metavar="T")
    add("--extra-body", type=json.loads, default={}, metavar="JSON", help="further fields of every request")
    add("--allow-merged", action="store_true", help="an event may bring several tokens")
    add("--processes", type=count, default=1, metavar="N", help="that the clients are spread over (%(default)s)")
    add("--cpu-list", type=cpu_list, metavar="LIST", help="processors for them, as 8-15,20")
    add("--warmup", type=number(0, kind=int), metavar="N", help="requests before the first run (one a client, or one)")
    add("--repeats", type=count, default=1, metavar="N", help="runs, of which medians are reported (%(default)s)")
    add("--server-pid", type=count, metavar="PID", help="report the processor time of this process")
    add("--seed", type=number(0, kind=int), default=0, metavar="N")
    add("--output", metavar="FILE", help="write the figures as JSON")
    options = parser.parse_args()
    if not options.clients and not options.request_rate:
        parser.error("expected --clients or --request-rate")
    is_chat = options.endpoint.endswith("/chat/completions")
    options.prompt = options.prompt or ("text" if is_chat else "ids")
    if is_chat and options.prompt == "ids":
        parser.error("--prompt ids: chat takes texts only")
    options.base_url = options.base_url.rstrip("/")
    if options.warmup is None:
        options.warmup = options.clients or 1
    options.salt = time.time_ns()
    return options


def main():
    options = parse_arguments()
    try:
        options.model = options.model or asyncio.run(served_model(options))
    except (aiohttp.ClientError, OSError, ValueError, LookupError) as problem:
        sys.exit(f"bench_serve: {options.base_url}/v1/models: {problem}")
    processes = Processes(options)
    try:
        runs, all_good = measure(options, processes)
    except EOFError:
        sys.exit("bench_serve: a process of clients has ended")
    processes.close()
    report = report_of(options, runs)
    print_table(report)
    if options.output:
        with open(options.output, "w", encoding="utf-8") as file:
            json.dump(report, file, indent=2)
            file.write("\n")
    sys.exit(0 if all_good else 1)


if __name__ == "__main__":
    main()
