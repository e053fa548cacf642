#include "kernels/cuda/device/bandwidth.h"

#include <cuda_runtime.h>
#include <time.h>

#include "base/clock.h"
#include "kernels/cuda/device/errors.h"

namespace {

constexpr int THREADS = 512, BLOCKS_PER_SM = 4, UNROLL = 8, N_WARM_UP = 2;

/* The sum keeps the compiler from removing the reads. */
__global__ void read_all(const uint4 *from, size_t n, unsigned *sink)
{
  unsigned sum = 0;
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step * UNROLL) {
#pragma unroll
    for (int j = 0; j < UNROLL; j++) {
      if (i + j * step < n) {
        const uint4 v = __ldcs(from + i + j * step);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
      }
    }
  }
  if (sum == 0x12345678u) *sink = sum;
}

__global__ void copy_all(const uint4 *from, size_t n, uint4 *to)
{
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step) __stcs(to + i, __ldcs(from + i));
}

/* Owner: yk_cuda_bandwidth_time. */
struct bench {
  int ordinal, n_blocks;
  size_t n; /* vectors */
  uint4 *from, *to;
  cudaStream_t stream;
  cudaEvent_t begin, end;
};

yk_status check(const bench &b, cudaError_t error, const char *what, yk_err *err)
{
  return yk_cuda_error_report(b.ordinal, error, what, err);
}

yk_status open_bench(bench &b, bool copies, yk_err *err)
{
  int n_sms = 0;
  const size_t n_bytes = b.n * sizeof(uint4);
  YK_TRY(check(b, cudaSetDevice(b.ordinal), "select", err));
  YK_TRY(check(b, cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, b.ordinal), "attributes", err));
  b.n_blocks = n_sms * BLOCKS_PER_SM;
  YK_TRY(check(b, cudaStreamCreateWithFlags(&b.stream, cudaStreamNonBlocking), "stream", err));
  YK_TRY(check(b, cudaEventCreate(&b.begin), "event", err));
  YK_TRY(check(b, cudaEventCreate(&b.end), "event", err));
  YK_TRY(check(b, cudaMalloc(&b.from, n_bytes), "memory for a read", err));
  YK_TRY(check(b, cudaMalloc(&b.to, copies ? n_bytes : sizeof(uint4)), "memory for a copy", err));
  return check(b, cudaMemsetAsync(b.from, 0x5a, n_bytes, b.stream), "filling", err);
}

void close_bench(bench &b)
{
  if (b.begin) cudaEventDestroy(b.begin);
  if (b.end) cudaEventDestroy(b.end);
  if (b.stream) cudaStreamDestroy(b.stream);
  cudaFree(b.from);
  cudaFree(b.to);
  cudaGetLastError();
}

yk_status wait_for(const bench &b, yk_err *err)
{
  const double limit_s = 5;
  const timespec pause = {0, 20000};
  const int64_t start_ns = yk_clock_now_ns();
  for (;;) {
    const cudaError_t error = cudaEventQuery(b.end);
    if (error != cudaErrorNotReady) return check(b, error, "memory test", err);
    cudaGetLastError();
    if (yk_clock_seconds_since(start_ns) > limit_s)
      return yk_err_set(err, YK_E_TIMEOUT, "GPU %d: a test of its memory did not end within %g s", b.ordinal, limit_s);
    nanosleep(&pause, nullptr);
  }
}

yk_status time_kernels(const bench &b, bool copies, int n_repeats, double *us, yk_err *err)
{
  for (int i = -N_WARM_UP; i < n_repeats; i++) {
    float ms = 0;
    YK_TRY(check(b, cudaEventRecord(b.begin, b.stream), "event", err));
    if (copies)
      copy_all<<<b.n_blocks, THREADS, 0, b.stream>>>(b.from, b.n, b.to);
    else
      read_all<<<b.n_blocks, THREADS, 0, b.stream>>>(b.from, b.n, reinterpret_cast<unsigned *>(b.to));
    YK_TRY(check(b, cudaGetLastError(), "memory test", err));
    YK_TRY(check(b, cudaEventRecord(b.end, b.stream), "event", err));
    YK_TRY(wait_for(b, err));
    YK_TRY(check(b, cudaEventElapsedTime(&ms, b.begin, b.end), "event", err));
    if (i >= 0) us[i] = ms * 1e3;
  }
  return YK_OK;
}

} // namespace

yk_status yk_cuda_bandwidth_time(int ordinal, int64_t n_bytes, bool copies, int n_repeats, double *us, yk_err *err)
{
  bench b = {};
  int current = 0;
  b.ordinal = ordinal;
  b.n = (size_t)n_bytes / sizeof(uint4);
  cudaGetDevice(&current);
  yk_status status = open_bench(b, copies, err);
  if (status == YK_OK) status = time_kernels(b, copies, n_repeats, us, err);
  if (status != YK_E_TIMEOUT) close_bench(b);
  cudaSetDevice(current);
  return status;
}
