"""Messages of the program when a GPU fails. Also runs yoke_with_faults: see fault/hook/fault_hook.h.

YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure. No GPU: exit code 77.
"""

import os
import sys
import time

import harness


class CudaFailures(harness.Case):
    def check_failure(self, fault, *parts, options=(), within_s=30):
        os.environ["YOKE_FAULT"] = fault
        started = time.monotonic()
        try:
            done = self.run_yoke("generate", "--model", os.path.join(harness.FAMILIES, "qwen3"), "--device", "cuda",
                                 "--token-ids", "1,17,93", "--token-ids", "5,44", "--max-tokens", 12, "--ignore-eos",
                                 *options, expect=1)
        finally:
            del os.environ["YOKE_FAULT"]
        self.assertLess(time.monotonic() - started, within_s)
        for part in parts:
            self.assertIn(part, done.err)

    def test_an_illegal_address(self):
        self.check_failure("rank=0 operation=attention call=2 fault=illegal-address", "rank 0", "GPU 0: ",
                           "illegal memory access", "a new process is needed")

    def test_a_kernel_stalls(self):
        self.check_failure("rank=0 operation=graph_run call=2 fault=stall-gpu seconds=3",
                           "rank 0 did not finish a step within 1 s; rank 0 is at ", " on GPU 0",
                           options=("--step-timeout", 1))

    def test_a_kernel_hangs(self):
        """The program ends although the kernel does not."""
        self.check_failure("rank=0 operation=attention call=2 fault=stall-gpu", "did not finish a step within 1 s",
                           options=("--step-timeout", 1))

    def test_memory_runs_out(self):
        self.check_failure("rank=0 operation=alloc call=5 fault=no-memory", "rank 0, loading: GPU 0: no memory for ",
                           " are free")

    def test_nothing_goes_wrong_unasked(self):
        done = self.run_yoke("generate", "--model", os.path.join(harness.FAMILIES, "qwen3"), "--device", "cuda",
                             "--token-ids", "1,17,93", "--max-tokens", 4)
        self.assertNotIn("error", done.err)


if __name__ == "__main__":
    harness.gate(1)
    sys.argv[1] = os.path.join(os.path.dirname(os.path.abspath(sys.argv[1])), "yoke_with_faults")
    harness.main()
