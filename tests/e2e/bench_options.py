"""Command lines that the benchmarks and dump_logits refuse. Needs no model and no GPU."""

import os
import subprocess
import tempfile
import unittest.mock

import harness


class Refused(harness.Case):
    def refused(self, name, arguments, *parts, code=2):
        program = os.path.join(os.path.dirname(self.yoke), name)
        if not os.path.exists(program):
            self.skipTest(f"{name} is not built")
        done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (code, ""))
        for part in parts:
            self.assertIn(part, done.stderr)

    def test_operands(self):
        for name in ("bench_clients", "bench_engine_step", "dump_logits"):
            with self.subTest(name):
                self.refused(name, ["model"], 'unexpected argument "model"', f"{name} --help")

    def test_bench_clients(self):
        for arguments, parts in ((["--clients", "0"], ["--clients", "an integer from 1", '"0"']),
                                 (["--range-ratio", "1.5"], ["--range-ratio", "from 0 to 1", '"1.5"']),
                                 (["--output-len", "0"], ["--output-len", '"0"']),
                                 (["--repeats", "65"], ["--repeats", "from 1 to 64"])):
            with self.subTest(arguments):
                self.refused("bench_clients", ["--model", "m", *arguments], *parts)
        self.refused("bench_clients", ["--model", harness.DEMO, "--json", "/no/such/file"], "/no/such/file",
                     "No such file", code=1)

    def test_bench_attention(self):
        self.refused("bench_attention", ["--kv-dtype", "int4"], "--kv-dtype", "act, int8", '"int4"', "--help")

    def test_bench_allreduce(self):
        for value in ("", "0,", "0,x"):
            with self.subTest(value):
                self.refused("bench_allreduce", ["--devices", value], "--devices", "integers separated by commas",
                             f'"{value}"')

    def test_devices(self):
        self.refused("bench_allreduce", ["--devices", "0"], "CUDA device", code=1)
        self.refused("bench_allreduce", ["--devices", "0,1,0"], "--devices", "found 0 twice", code=1)

    @unittest.mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": ""})
    def test_without_gpu(self):
        self.refused("bench_allreduce", [], "yoke: error: no CUDA device", code=1)
        self.refused("bench_attention", [], "yoke: error: ", "cudaGetDeviceProperties", code=1)
        self.refused("bench_linear", [], "yoke: error: ", "GEMM init", code=1)

    def test_kernel_benches(self):
        for name in ("bench_attention", "bench_allreduce", "bench_linear"):
            for arguments, parts in ((["--what"], ["--what", f"{name} --help"]),
                                     (["what"], ['unexpected argument "what"']),
                                     (["--json"], ["--json", "a value after it"])):
                with self.subTest((name, *arguments)):
                    self.refused(name, arguments, *parts)
            self.refused(name, ["--json", "/no/such/file"], "/no/such/file", "No such file", code=1)

    def test_bench_linear(self):
        integers, one_of = "integers separated by commas", "qkv, o, gate_up"
        for arguments, parts in ((["--m", "abc"], ["--m", integers, '"abc"']),
                                 (["--m", "1,0"], ["1 to 1048576 tokens", "found 0"]),
                                 (["--m", "1,2x"], [integers, '"1,2x"']), (["--m", "1.5"], [integers, '"1.5"']),
                                 (["--m", "2000000"], ["1 to 1048576 tokens", "found 2000000"]),
                                 (["--shapes", "o,x"], ["--shapes", one_of, '"x"']),
                                 (["--shapes", "o,"], [one_of, '""']),
                                 (["--model", "x"], ["qwen3-8b, qwen3-30b-a3b", '"x"']),
                                 (["--dtype", "f16"], ["float16, bfloat16", '"f16"']),
                                 (["--path", ""], ["auto, mma, wgmma"]),
                                 (["--format", "awq"], ["int4, int8, fp8, fp4, w8a8", '"awq"']),
                                 (["--group", "0"], ["--group", '"0"']),
                                 (["--repeats", "0"], ["--repeats", "1 to 10000"]),
                                 (["--peak", "-1"], ["--peak", "a number from"]),
                                 (["--bandwidth", "1e9"], ["--bandwidth", "to 1000"]),
                                 (["--cold", "x"], ["--cold"]), (["--seed", "-2"], ["--seed"])):
            with self.subTest(arguments):
                self.refused("bench_linear", arguments, *parts)

    def test_bench_linear_fit(self):
        program = os.path.join(os.path.dirname(self.yoke), "bench_linear")
        if not os.path.exists(program):
            self.skipTest("bench_linear is not built")
        self.refused("bench_linear", ["--model", "qwen3-30b-a3b", "--shapes", "gate_up"], "--shapes",
                     "qwen3-30b-a3b has none", code=1)
        header = "# bench_linear --plans, commit x, multiprocessors 132\n"
        point = "float16 128 o 4096 4096 0 64 wgmma:m128,n"
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plans.txt")
            self.refused("bench_linear", ["--fit", path], path, "No such file", code=1)
            for text, parts in (("", ["found none"]), (header + "o 64 8.0\n", [f"{path}:2", '"o 64 8.0"']),
                                (point + "64,cluster1:split_k4 8.0\n", [f"{path}:1"]),
                                (header + point.replace("4096 4096", "4095 4096") + "64 8.0\n", ["k must be", "4095"])):
                with open(path, "w", encoding="utf-8") as file:
                    file.write(text)
                with self.subTest(text):
                    self.refused("bench_linear", ["--fit", path], *parts, code=1)
            with open(path, "w", encoding="utf-8") as file:
                file.write(header + point + "64,cluster1:split_k4 8.0\n" + point + "32,cluster1:split_k2 8.8\n" +
                           point + "128,cluster1:split_k4 8.8\n")
            done = subprocess.run([program, "--fit", path, "--fit-steps", "50"], capture_output=True, text=True,
                                  timeout=60, check=True)
            self.assertRegex(done.stdout, r"wgmma:m128,n64,cluster1 +1 +10.0 %  o at 64 +1")
            self.assertIn("may go: wgmma:m128,n32,cluster1", done.stdout)
            self.assertNotIn("may go: wgmma:m128,n64,cluster1", done.stdout)
            self.assertRegex(done.stdout, r"\nCOST\(small_batch\.panel_us, [0-9.e-]+\)\n")
            self.assertRegex(done.stdout, r"\nCOSTS\(wgmma\.k_tile_us(, [0-9.e-]+){8}\)\n")


if __name__ == "__main__":
    harness.main()
