/* check.cuh - failed calls end a benchmark of kernels with the message and exit code of the yoke program. */
#ifndef YK_BENCH_CHECK_CUH
#define YK_BENCH_CHECK_CUH

#include <cstdio>
#include <cstdlib>

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include "kernels/activation.h"

extern "C" {
#include "cli/cli.h"
}

#define YK_BENCH_TEXT_OF(x) #x
#define YK_BENCH_TEXT(x)    YK_BENCH_TEXT_OF(x)
#define CUDA_OK(call)       bench::check((call), __FILE__ ":" YK_BENCH_TEXT(__LINE__) ": " #call)

namespace bench {

/* End the process at once. exit() would run destructors while other threads may still be in CUDA calls. */
[[noreturn]] inline void give_up(const yk_err &err)
{
  std::fflush(stdout);
  std::_Exit(yk_cli_failure(&err));
}

/* The activation of gate and up, or none. */
__host__ __device__ constexpr yk_activation silu_where(bool is_gated)
{
  return is_gated ? yk_activation YK_GATED_SILU : yk_activation YK_NO_ACTIVATION;
}

inline void check(yk_status status, const yk_err &err)
{
  if (status != YK_OK) give_up(err);
}

/* what: the call that failed. why: the library's text for its error code. */
[[noreturn]] inline void give_up(const char *what, const char *why)
{
  yk_err err = YK_ERR_INIT;
  yk_err_set(&err, YK_E_DEVICE, "%s: %s", what, why);
  give_up(err);
}

inline void check(cudaError_t rc, const char *what)
{
  if (rc != cudaSuccess) give_up(what, cudaGetErrorString(rc));
}

inline void check(cublasStatus_t rc, const char *what)
{
  if (rc != CUBLAS_STATUS_SUCCESS) give_up(what, cublasGetStatusString(rc));
}

} // namespace bench

#endif
