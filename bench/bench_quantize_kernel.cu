/* bench_quantize_kernel.cu - 16-bit weights to AWQ's tensors on a GPU. One run times the fused kernel, separate passes
 * (range of each group, quotients, transposition and packing), and a copy of the same number of bytes.
 * tests/op/test_op_cuda_quantize.c checks the results. */
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/quantize/awq_fused.cuh"
#include "kernels/cuda/quantize/awq_quantize.h"

extern "C" {
#include "yoke/process.h"
}

using namespace bench;
using namespace yk_awq;

namespace {

/* ---- Separate passes --------------------------------------------------------------------------------------------- */

struct passes_args {
  fused_args tensors;
  int64_t group;
  float *zeros; /* [n, groups] */
  uint8_t *q;   /* [n, k] */
};

template <typename T> __device__ float load(const fused_args &p, int64_t at)
{
  return static_cast<float>(static_cast<const T *>(p.w)[at]);
}

/* One warp per group. */
template <typename T> __global__ void range_pass(const passes_args p)
{
  const int64_t at = (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x) / 32;
  const int64_t n_groups = p.tensors.k / p.group;
  if (at >= p.tensors.n * n_groups) return;
  float low = 0, high = 0;
  for (int64_t i = threadIdx.x % 32; i < p.group; i += 32) {
    const float w = load<T>(p.tensors, at * p.group + i);
    low = fminf(low, w);
    high = fmaxf(high, w);
  }
  for (int lane = 16; lane > 0; lane /= 2) {
    low = fminf(low, __shfl_xor_sync(0xffffffffu, low, lane));
    high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, lane));
  }
  const group g = group_of(low, high);
  if (threadIdx.x % 32) return;
  p.zeros[at] = g.zero;
  p.tensors.scales[at % n_groups * p.tensors.n + at / n_groups] = g.scale_bits;
}

/* Two neighbouring inputs per thread. */
template <typename T> __global__ void quotient_pass(const passes_args p)
{
  const int64_t at = 2 * (blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x);
  if (at >= p.tensors.n * p.tensors.k) return;
  const int64_t n = at / p.tensors.k, which = at % p.tensors.k / p.group;
  group g;
  g.scale = __half2float(__ushort_as_half(p.tensors.scales[which * p.tensors.n + n]));
  g.zero = p.zeros[at / p.group];
  for (int i = 0; i < 2; i++) p.q[at + i] = static_cast<uint8_t>(whole_of(g, load<T>(p.tensors, at + i)));
}

/* 32 inputs of 256 outputs per thread block; the first n_groups rows of the grid also pack zeros. */
__global__ void pack_pass(const passes_args p)
{
  __shared__ uint8_t tile[256][33];
  const int64_t k = p.tensors.k, n = p.tensors.n, first_k = blockIdx.y * 32ll, first_n = blockIdx.x * 256ll;
  for (int i = threadIdx.x; i < 256 * 32; i += 256)
    if (first_n + i / 32 < n && first_k + i % 32 < k)
      tile[i / 32][i % 32] = p.q[(first_n + i / 32) * k + first_k + i % 32];
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * 32; i += 256) {
    const int column = i % 32, input = i / 32;
    if (first_n + column * 8 >= n || first_k + input >= k) continue;
    uint32_t word = 0;
    for (int j = 0; j < 8; j++) word |= static_cast<uint32_t>(tile[column * 8 + j][input]) << 4 * nibble_of_output(j);
    p.tensors.qweight[(first_k + input) * (n / 8) + first_n / 8 + column] = word;
  }
  if (blockIdx.y >= k / p.group || threadIdx.x >= 32 || first_n + threadIdx.x * 8 >= n) return;
  uint32_t word = 0;
  for (int j = 0; j < 8; j++)
    word |= static_cast<uint32_t>(p.zeros[(first_n + threadIdx.x * 8 + j) * (k / p.group) + blockIdx.y])
            << 4 * nibble_of_output(j);
  p.tensors.qzeros[blockIdx.y * (n / 8) + first_n / 8 + threadIdx.x] = word;
}

template <typename T> void launch_passes(const passes_args &p, cudaStream_t stream)
{
  const int64_t n = p.tensors.n, k = p.tensors.k;
  const auto blocks = [](int64_t items, int each) { return static_cast<unsigned>((items + each - 1) / each); };
  range_pass<T><<<blocks(n * (k / p.group), 8), 256, 0, stream>>>(p);
  quotient_pass<T><<<blocks(n * k / 2, 256), 256, 0, stream>>>(p);
  pack_pass<<<dim3(blocks(n, 256), blocks(k, 32)), 256, 0, stream>>>(p);
}

/* ---- Buffers ----------------------------------------------------------------------------------------------------- */

struct buffers {
  yk_awq_quantize_args args;
  passes_args passes;
};

buffers make(const void *w, yk_dtype dtype, int64_t n, int64_t k, int64_t group)
{
  buffers b = {};
  b.args.weight = {.w = w, .dtype = dtype, .n = n, .k = k, .group = group};
  CUDA_OK(cudaMalloc(&b.args.out.qweight, n * k / 2));
  CUDA_OK(cudaMalloc(&b.args.out.qzeros, n * (k / group) / 2));
  CUDA_OK(cudaMalloc(&b.args.out.scales, n * (k / group) * 2));
  CUDA_OK(cudaMalloc(&b.args.found, sizeof *b.args.found));
  CUDA_OK(cudaMemset(b.args.found, 0xFF, sizeof *b.args.found));
  b.passes = {.tensors = {w, b.args.out.qweight, b.args.out.qzeros, b.args.out.scales, nullptr, n, k}, .group = group};
  CUDA_OK(cudaMalloc(&b.passes.zeros, n * (k / group) * 4));
  CUDA_OK(cudaMalloc(&b.passes.q, n * k));
  return b;
}

void release(const buffers &b)
{
  for (void *at : {(void *)b.args.out.qweight, (void *)b.args.out.qzeros, (void *)b.args.out.scales,
                   (void *)b.args.found, (void *)b.passes.zeros, (void *)b.passes.q})
    CUDA_OK(cudaFree(at));
}

/* ---- Times ------------------------------------------------------------------------------------------------------- */

struct sizes {
  int64_t n, k, group;
};

struct figures {
  int64_t bytes;
  spread copy, passes, fused;
};

/* Enough copies of a weight that no copy is in the caches when it is read again. */
template <typename T> figures time(cudaStream_t stream, yk_dtype dtype, const sizes &s)
{
  const int64_t bytes = s.n * s.k * 2, made = s.n * s.k / 2 + s.n * (s.k / s.group) * 5 / 2, half = (bytes + made) / 2;
  const int64_t copied = (half + 65535) / 65536 * 65536; /* copies of odd lengths are half as fast */
  const int copies = static_cast<int>((400 << 20) / bytes + 1);
  char *w, *from, *to;
  CUDA_OK(cudaMalloc(&w, bytes * copies));
  CUDA_OK(cudaMalloc(&from, copied * copies));
  CUDA_OK(cudaMalloc(&to, copied * copies));
  fill_random<<<1024, 256, 0, stream>>>(reinterpret_cast<__half *>(w), bytes / 2 * copies, 3u);
  std::vector<buffers> b;
  for (int i = 0; i < copies; i++) b.push_back(make(w + i * bytes, dtype, s.n, s.k, s.group));
  auto run = [&](auto launch) {
    cudaGraphExec_t graph = capture(stream, [&](cudaStream_t on) {
      for (int i = 0; i < copies; i++) launch(i, on);
    });
    const spread us = time_graph(stream, graph, copies, 15);
    CUDA_OK(cudaGraphExecDestroy(graph));
    return us;
  };
  figures f = {.bytes = bytes + made};
  f.copy = run([&](int i, cudaStream_t on) {
    CUDA_OK(cudaMemcpyAsync(to + i * copied, from + i * copied, copied, cudaMemcpyDeviceToDevice, on));
  });
  for (double *us : {&f.copy.median, &f.copy.low, &f.copy.high}) *us *= static_cast<double>(half) / copied;
  f.passes = run([&](int i, cudaStream_t on) { launch_passes<T>(b[i].passes, on); });
  f.fused = run([&](int i, cudaStream_t on) { CUDA_OK(yk_cuda_launch_awq_quantize(&b[i].args, on)); });
  for (const buffers &one : b) release(one);
  for (void *at : {w, from, to}) CUDA_OK(cudaFree(at));
  return f;
}

void print(FILE *json, const char *type, const sizes &s, const figures &f)
{
  const auto rate = [&](const spread &us) { return f.bytes / us.median * 1e-6; };
  std::printf(
      "%-8s %6" PRId64 " x %6" PRId64 " groups of %5" PRId64 ": copy %6.1f us %.2f TB/s   passes %6.1f us %3.0f %%"
      "   fused %6.1f us (%.1f to %.1f) %3.0f %%\n",
      type, s.n, s.k, s.group, f.copy.median, rate(f.copy), f.passes.median, 100 * f.copy.median / f.passes.median,
      f.fused.median, f.fused.low, f.fused.high, 100 * f.copy.median / f.fused.median);
  if (json)
    std::fprintf(json,
                 "  {\"dtype\": \"%s\", \"outputs\": %" PRId64 ", \"inputs\": %" PRId64 ", \"group_size\": %" PRId64
                 ", \"bytes\": %" PRId64 ", \"copy_us\": %.2f, \"passes_us\": %.2f, \"fused_us\": [%.2f, %.2f, %.2f]}",
                 type, s.n, s.k, s.group, f.bytes, f.copy.median, f.passes.median, f.fused.low, f.fused.median,
                 f.fused.high);
}

void time_all(FILE *json)
{
  const sizes all[] = {{4096, 4096, 128},    {1024, 4096, 128},  {12288, 4096, 128},  {4096, 12288, 128},
                       {12288, 4096, 64},    {12288, 4096, 32},  {12288, 4096, 4096}, {8192, 8192, 8192},
                       {4096, 12288, 12288}, {28672, 8192, 128}, {12296, 4096, 128}};
  cudaStream_t stream;
  CUDA_OK(cudaStreamCreate(&stream));
  const char *separator = "\n";
  for (const sizes &s : all) {
    if (json) std::fputs(separator, json);
    print(json, "float16", s, time<__half>(stream, YK_F16, s));
    if (json) std::fputs(",\n", json);
    print(json, "bfloat16", s, time<__nv_bfloat16>(stream, YK_BF16, s));
    separator = ",\n";
  }
  CUDA_OK(cudaStreamDestroy(stream));
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  report_options report;
  std::vector<yk_option> options;
  add_options(options, report);
  parse_options("bench_quantize_kernel",
                "Measure what makes 4-bit weights of 16-bit ones on a GPU: one fused kernel, and separate passes, "
                "beside a copy of as many bytes as are read and written.",
                "  bench_quantize_kernel --json bench/results/quantize_kernel_h200.json\n", options, argc, argv);
  FILE *json = open_figures(report);
  cudaDeviceProp gpu;
  CUDA_OK(cudaGetDeviceProperties(&gpu, 0));
  if (json) std::fprintf(json, "{\"gpu\": \"%s\", \"commit\": \"%s\", \"rows\": [", gpu.name, report.commit);
  time_all(json);
  if (json) std::fputs("\n]}\n", json);
  close_figures(report, json);
  return 0;
}
