/* gpu_timing.cuh - shared by the benchmarks of GPUs: the time of repeated calls and graphs, its spread, and a GPU's
 * peak rates. */
#ifndef YK_BENCH_GPU_TIMING_CUH
#define YK_BENCH_GPU_TIMING_CUH

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <cublas_v2.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "bench/check.cuh"

namespace bench {

/* Statistics of the repeats of one measurement, in microseconds. */
struct spread {
  double median, low, high;
};

inline spread spread_of(std::vector<double> us)
{
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us.front(), us.back()};
}

/* An instantiated graph of the work that record(stream) launches. The caller destroys it. */
template <typename F> cudaGraphExec_t capture(cudaStream_t stream, F record)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  CUDA_OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  record(stream);
  CUDA_OK(cudaStreamEndCapture(stream, &graph));
  CUDA_OK(cudaGraphInstantiate(&exec, graph, 0));
  CUDA_OK(cudaGraphDestroy(graph));
  return exec;
}

/* The time of n_repeats calls of call(), which launches work on stream. Each call is between two events; three calls
 * before are not counted. */
template <typename F> spread time_calls(cudaStream_t stream, F call, int n_repeats = 9)
{
  cudaEvent_t begin, end;
  CUDA_OK(cudaEventCreate(&begin));
  CUDA_OK(cudaEventCreate(&end));
  std::vector<double> us;
  for (int i = -3; i < n_repeats; i++) {
    CUDA_OK(cudaEventRecord(begin, stream));
    call();
    CUDA_OK(cudaEventRecord(end, stream));
    CUDA_OK(cudaEventSynchronize(end));
    float ms = 0;
    CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
    if (i >= 0) us.push_back(ms * 1e3);
  }
  CUDA_OK(cudaEventDestroy(begin));
  CUDA_OK(cudaEventDestroy(end));
  return spread_of(us);
}

/* The time of one node, for a graph of n_nodes equal nodes. */
inline spread time_graph(cudaStream_t stream, cudaGraphExec_t exec, int n_nodes, int n_repeats)
{
  const spread us = time_calls(
      stream, [&] { CUDA_OK(cudaGraphLaunch(exec, stream)); }, n_repeats);
  return {us.median / n_nodes, us.low / n_nodes, us.high / n_nodes};
}

/* n values from -1 to 1; the same seed gives the same values. */
static __global__ void fill_random(__half *dst, size_t n, unsigned seed)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned x = (unsigned)i * 2654435761u ^ seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    dst[i] = __float2half((float)(x & 0xffff) / 32768.0f - 1.0f);
  }
}

/* Read n vectors. The sum keeps the compiler from removing the reads. */
static __global__ void read_all(const uint4 *src, size_t n, unsigned *sink)
{
  unsigned sum = 0;
  const size_t step = (size_t)gridDim.x * blockDim.x;
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += step * 8) {
#pragma unroll
    for (int j = 0; j < 8; j++) {
      if (i + j * step < n) {
        uint4 v = __ldcs(src + i + j * step);
        sum ^= v.x ^ v.y ^ v.z ^ v.w;
      }
    }
  }
  if (sum == 0x12345678u) *sink = sum;
}

/* The peak rates of one GPU. */
struct machine_rates {
  double read_tb_s, copy_tb_s, matmul_tflop_s;
};

/* A read of memory, a copy within the device (bytes read plus bytes written), and a float16 GEMM of 8192 x 8192 x 8192
 * on random data. */
inline machine_rates measure_rates(cudaStream_t stream)
{
  const size_t n_bytes = (size_t)2 << 30;
  const int n = 8192;
  char *a, *b;
  CUDA_OK(cudaMalloc(&a, n_bytes));
  CUDA_OK(cudaMalloc(&b, n_bytes));
  fill_random<<<1024, 256, 0, stream>>>((__half *)a, n_bytes / 2, 1u);
  fill_random<<<1024, 256, 0, stream>>>((__half *)b, n_bytes / 2, 2u);
  cudaGraphExec_t read = capture(
      stream, [&](cudaStream_t s) { read_all<<<132 * 8, 512, 0, s>>>((const uint4 *)a, n_bytes / 16, (unsigned *)b); });
  const spread read_us = time_graph(stream, read, 1, 9);
  const spread copy_us =
      time_calls(stream, [&] { CUDA_OK(cudaMemcpyAsync(b, a, n_bytes, cudaMemcpyDeviceToDevice, stream)); });
  cublasHandle_t blas;
  check(cublasCreate(&blas), "cuBLAS");
  cublasSetStream(blas, stream);
  const float one = 1, zero = 0;
  const spread matmul_us = time_calls(stream, [&] {
    cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, n, n, n, &one, a, CUDA_R_16F, n, a + (size_t)n * n * 2, CUDA_R_16F, n,
                 &zero, b, CUDA_R_16F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
  });
  cublasDestroy(blas);
  CUDA_OK(cudaFree(a));
  CUDA_OK(cudaFree(b));
  return {n_bytes / read_us.median * 1e-6, 2.0 * n_bytes / copy_us.median * 1e-6,
          2.0 * n * n * n / matmul_us.median * 1e-6};
}

} // namespace bench

#endif
