/* gemm_paths.cuh - the GEMM kernels that run on a GPU: those for 9.0, and those for 8.0, which also run on 9.0. */
#ifndef YK_BENCH_GEMM_PATHS_CUH
#define YK_BENCH_GEMM_PATHS_CUH

#include <cstdio>

#include "bench/check.cuh"
#include "kernels/cuda/gemm/dense/dense.h"

namespace bench {

/* Calls f(gpu, path) for the wanted path, or for both paths, if the GPU supports it. */
template <typename F> void for_each_path(yk_gemm_path only, F f)
{
  for (yk_gemm_path path : {YK_GEMM_WGMMA, YK_GEMM_MMA}) {
    if (only != YK_GEMM_AUTO && only != path) continue;
    yk_gemm_gpu gpu;
    yk_err err = YK_ERR_INIT;
    const yk_status status = yk_gemm_gpu_init(&gpu, path, &err);
    if (status == YK_E_UNSUPPORTED) {
      std::printf("%s\n", err.message);
      continue;
    }
    check(status, err);
    f(gpu, path);
  }
}

} // namespace bench

#endif
