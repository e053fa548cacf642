"""cuBLAS and NCCL are loaded for GPUs: CPU ranks need neither, one GPU does not need NCCL, and a program that misses
one reports it.

The test replaces the libraries by files that are no libraries. YOKE_REQUIRE_GPU=N makes fewer than N GPUs a failure;
tests that need more than there are are skipped.
"""

import os
import unittest
import unittest.mock

import harness

CUBLAS = [f"lib{name}.so.{major}" for name in ("cublas", "cublasLt") for major in (12, 13, 14)]
NCCL = ["libnccl.so.2"]
GENERATE = ["generate", "--model", harness.DEMO, "--prompt", "348+275=", "--max-tokens", 4, "--temperature", 0]
N_GPUS = min(harness.count_gpus(), int(os.environ.get("YOKE_REQUIRE_GPU", 8)))


class Libraries(harness.Case):
    def spoil(self, names):
        """Until the test ends, programs find empty files under these names first."""
        folder = harness.scratch_folder(self.addCleanup)
        for name in names:
            open(os.path.join(folder, name), "wb").close()
        paths = os.pathsep.join(filter(None, [folder, os.environ.get("LD_LIBRARY_PATH")]))
        changed = unittest.mock.patch.dict(os.environ, {"LD_LIBRARY_PATH": paths})
        changed.start()
        self.addCleanup(changed.stop)

    def test_cpu_ranks_need_neither(self):
        self.spoil(CUBLAS + NCCL)
        self.run_yoke("--version")
        self.assertIn("623", self.run_yoke(*GENERATE, "--device", "cpu", "--tp", 2).out)
        self.run_yoke("plan", "--model", harness.DEMO)

    @unittest.skipIf(N_GPUS < 1, "needs a GPU")
    def test_one_gpu_needs_no_nccl(self):
        self.spoil(NCCL)
        self.assertIn("623", self.run_yoke(*GENERATE, "--device", "cuda").out)

    @unittest.skipIf(N_GPUS < 1, "needs a GPU")
    def test_a_gpu_needs_cublas(self):
        self.spoil(CUBLAS)
        self.assert_error([*GENERATE, "--device", "cuda"], "GPUs need cuBLAS: ", "libcublas.so.", "file too short")

    @unittest.skipIf(N_GPUS < 2, "needs 2 GPUs")
    def test_several_gpus_need_nccl(self):
        self.spoil(NCCL)
        self.assert_error([*GENERATE, "--device", "cuda", "--tp", 2], "several ranks on GPUs need NCCL: ",
                          "libnccl.so.2", "file too short")


if __name__ == "__main__":
    harness.gate(0)
    harness.main()
