/* bench_linear.cu - W4A16 (AWQ) products: checked against float64, then timed cold beside cuBLAS.
 *
 * Time is that of a graph of products, one after the other, over so many copies of the weights that none is in the L2
 * cache when its turn comes, divided by their number; median over replays. The floor of a product is the larger of its
 * bytes over the memory's rate and its operations over the matrix units' rate (--bandwidth, --peak).                  */
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "kernels/cuda/w4a16.h"

namespace {

void fail(const char *what, const char *why)
{
  std::fprintf(stderr, "bench_linear: %s: %s\n", what, why);
  std::exit(1);
}

void check(cudaError_t error, const char *what)
{
  if (error != cudaSuccess) fail(what, cudaGetErrorString(error));
}

void check(cublasStatus_t status, const char *what)
{
  if (status != CUBLAS_STATUS_SUCCESS) fail(what, cublasGetStatusString(status));
}

void check(yk_status status, const yk_err &err)
{
  if (status != YK_OK) fail("product", err.message);
}

/* Device memory with one owner. */
template <typename T> struct device_array {
  T *data = nullptr;
  size_t count = 0;
  explicit device_array(size_t n) : count(n)
  {
    check(cudaMalloc(&data, std::max<size_t>(n, 1) * sizeof(T)), "memory");
  }
  ~device_array()
  {
    cudaFree(data);
  }
  device_array(const device_array &) = delete;
  device_array &operator=(const device_array &) = delete;
};

struct options {
  std::vector<int64_t> ms = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  std::vector<std::string> shapes; /* empty: all */
  yk_dtype dtype = YK_F16;
  int64_t group = 128;
  yk_w4a16_path path = YK_W4A16_AUTO;
  int repeats = 11;
  double bandwidth = 4.35e12, peak = 640e12; /* of an H200, for the floor */
  size_t cold_bytes = 200u << 20;
  const char *json = nullptr;
  bool check_only = false, cublas = true, fused = true;
  uint64_t seed = 0;
};

struct shape {
  const char *name;
  int64_t k, n;
  bool gate_up;
};

/* Qwen3-8B, whole and as the largest shard of 2, 3 and 4 ranks. */
const shape SHAPES[] = {
    {"qkv", 4096, 6144, false},       {"o", 4096, 4096, false},        {"gate_up", 4096, 24576, true},
    {"down", 12288, 4096, false},     {"qkv/2", 4096, 3072, false},    {"o/2", 2048, 4096, false},
    {"gate_up/2", 4096, 12288, true}, {"down/2", 6144, 4096, false},   {"qkv/3", 4096, 2176, false},
    {"o/3", 1408, 4096, false},       {"gate_up/3", 4096, 8192, true}, {"down/3", 4096, 4096, false},
    {"qkv/4", 4096, 1536, false},     {"o/4", 1024, 4096, false},      {"gate_up/4", 4096, 6144, true},
    {"down/4", 3072, 4096, false},
};

/* Marlin on the same kind of GPU, f16, group 128, cold, measured apart; microseconds. Quoted, not run. */
struct quoted {
  int64_t k, n, m;
  double us;
};
const quoted MARLIN[] = {
    {4096, 6144, 1, 11.5},    {4096, 6144, 16, 11.8},    {4096, 6144, 64, 23.6},   {4096, 6144, 256, 42},
    {4096, 6144, 1024, 147},  {4096, 6144, 4096, 580},   {4096, 4096, 1, 10.6},    {4096, 4096, 16, 10.9},
    {4096, 4096, 64, 24.0},   {4096, 4096, 256, 30},     {4096, 4096, 1024, 100},  {4096, 4096, 4096, 395},
    {4096, 24576, 1, 26.9},   {4096, 24576, 16, 27.2},   {4096, 24576, 64, 42.5},  {4096, 24576, 256, 153},
    {4096, 24576, 1024, 609}, {4096, 24576, 4096, 2437}, {12288, 4096, 1, 17.0},   {12288, 4096, 16, 17.3},
    {12288, 4096, 64, 35.2},  {12288, 4096, 256, 77},    {12288, 4096, 1024, 297}, {12288, 4096, 4096, 1135},
    {4096, 1536, 1, 16.8},    {4096, 1536, 16, 17.9},    {4096, 1536, 64, 35.7},   {4096, 1536, 256, 23},
    {4096, 1536, 1024, 41},   {4096, 1536, 4096, 163},   {3072, 4096, 1, 9.7},     {3072, 4096, 16, 10.0},
    {3072, 4096, 64, 22.5},   {3072, 4096, 256, 24},     {3072, 4096, 1024, 76},   {3072, 4096, 4096, 303},
};

double marlin_us(const shape &s, int64_t m)
{
  for (const quoted &q : MARLIN)
    if (q.k == s.k && q.n == s.n && q.m == m) return q.us;
  return 0;
}

/* ---- data and reference ------------------------------------------------------------------------------------------ */

__device__ uint64_t mix(uint64_t v)
{
  v += 0x9E3779B97F4A7C15u;
  v = (v ^ v >> 30) * 0xBF58476D1CE4E5B9u;
  v = (v ^ v >> 27) * 0x94D049BB133111EBu;
  return v ^ v >> 31;
}

__global__ void fill_words(uint32_t *out, size_t n, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    out[i] = static_cast<uint32_t>(mix(seed * 0x100000001B3u + i));
}

/* Uniform in [low, high), rounded to dtype. */
__global__ void fill_halves(uint16_t *out, size_t n, yk_dtype dtype, float low, float high, uint64_t seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    float v = low + (high - low) * static_cast<float>(mix(seed * 0x100000001B3u + i) >> 40) * 0x1p-24f;
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

__device__ float half_value(uint16_t bits, yk_dtype dtype)
{
  return dtype == YK_F16 ? __half2float(__ushort_as_half(bits)) : __bfloat162float(__ushort_as_bfloat16(bits));
}

/* AWQ tensors as in a checkpoint, and which part of them a product takes. */
struct awq {
  const int32_t *qweight, *qzeros;
  const uint16_t *scales;
  yk_dtype scales_dtype;
  int64_t n, group, k0;   /* whole columns; group; first input of the product */
  const int64_t *columns; /* source column of each column of the product */
};

__device__ double awq_weight(const awq &w, int64_t k, int64_t column)
{
  const int shifts[8] = {0, 16, 4, 20, 8, 24, 12, 28};
  int64_t at = w.columns[column], word = at / 8, row = w.k0 + k, g = row / w.group;
  int q = static_cast<uint32_t>(w.qweight[row * (w.n / 8) + word]) >> shifts[at % 8] & 15;
  int z = static_cast<uint32_t>(w.qzeros[g * (w.n / 8) + word]) >> shifts[at % 8] & 15;
  return static_cast<double>(half_value(w.scales[g * w.n + at], w.scales_dtype)) * (q - z);
}

__device__ double exact_sum(const awq &w, const uint16_t *x, yk_dtype dtype, int64_t k, int64_t column)
{
  double sum = 0;
  for (int64_t i = 0; i < k; i++) sum += static_cast<double>(half_value(x[i], dtype)) * awq_weight(w, i, column);
  return sum;
}

/* out[i, column] in float64 for the tokens named in rows. */
__global__ void reference(awq w, const uint16_t *x, const uint16_t *bias, yk_w4a16_desc d, const int64_t *rows,
                          double *out)
{
  int64_t width = d.gate_up ? d.n / 2 : d.n, column = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (column >= width) return;
  x += rows[blockIdx.y] * d.k;
  double v = exact_sum(w, x, d.dtype, d.k, column) + (bias ? half_value(bias[column], d.dtype) : 0.0);
  if (d.gate_up) {
    double up =
        exact_sum(w, x, d.dtype, d.k, width + column) + (bias ? half_value(bias[width + column], d.dtype) : 0.0);
    v = v / (1 + exp(-v)) * up;
  }
  out[blockIdx.y * width + column] = v;
}

/* W rounded to dtype, [n, k] as a plain linear layer keeps it. */
__global__ void expand(awq w, uint16_t *out, int64_t k, int64_t n, yk_dtype dtype)
{
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < k * n; i += int64_t(gridDim.x) * blockDim.x) {
    float v = static_cast<float>(awq_weight(w, i % k, i / k));
    out[i] = dtype == YK_F16 ? __half_as_ushort(__float2half_rn(v)) : __bfloat16_as_ushort(__float2bfloat16_rn(v));
  }
}

__global__ void read_bytes(const uint4 *from, size_t n, uint32_t *out)
{
  uint32_t sum = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    uint4 v = from[i];
    sum ^= v.x ^ v.y ^ v.z ^ v.w;
  }
  if (sum == 0x12345678u) *out = sum;
}

__global__ void copy_bytes(const uint4 *from, uint4 *to, size_t n)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x)
    to[i] = from[i];
}

double to_double(uint16_t bits, yk_dtype dtype)
{
  return dtype == YK_F16 ? yk_f16_to_f32(bits) : yk_bf16_to_f32(bits);
}

/* ---- one product on the device ------------------------------------------------------------------------------------ */

/* Where a part of the product's columns comes from. */
struct part {
  int64_t first_column, n_columns, source_column;
};

/* Fresh random tensors, their repacked copy, activations and results. */
struct product {
  yk_w4a16_desc desc;
  int64_t k0, source_n, source_group, m_max;
  yk_dtype scales_dtype;
  uint64_t seed;
  device_array<uint32_t> qweight, qzeros;
  device_array<uint16_t> scales, x, y, bias;
  device_array<int64_t> columns;
  device_array<uint8_t> packed, workspace;

  product(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &d, int64_t first_k, int64_t n_source, int64_t group_source,
          yk_dtype scales_type, const std::vector<part> &parts, int64_t most_tokens, uint64_t s)
      : desc(d), k0(first_k), source_n(n_source), source_group(group_source), m_max(most_tokens),
        scales_dtype(scales_type), seed(s), qweight((k0 + d.k) * n_source / 8),
        qzeros((k0 + d.k + group_source - 1) / group_source * n_source / 8), scales(qzeros.count * 8),
        x(most_tokens * d.k), y(most_tokens * d.n), bias(d.n), columns(d.n), packed(yk_w4a16_packed_bytes(&d)),
        workspace(yk_w4a16_workspace_bytes(&gpu, &d, most_tokens))
  {
    fill_words<<<1024, 256>>>(qweight.data, qweight.count, seed + 1);
    fill_words<<<256, 256>>>(qzeros.data, qzeros.count, seed + 2);
    fill_halves<<<256, 256>>>(scales.data, scales.count, scales_dtype, 0.002f, 0.02f, seed + 3);
    fill_halves<<<1024, 256>>>(x.data, x.count, d.dtype, -1.0f, 1.0f, seed + 4);
    fill_halves<<<64, 256>>>(bias.data, bias.count, d.dtype, -2.0f, 2.0f, seed + 5);
    check(cudaMemset(packed.data, 0xFF, packed.count), "poison");
    check(cudaMemset(workspace.data, 0, workspace.count), "workspace");
    std::vector<int64_t> map(d.n);
    yk_err err = YK_ERR_INIT;
    for (const part &p : parts) {
      for (int64_t i = 0; i < p.n_columns; i++) map[p.first_column + i] = p.source_column + i;
      yk_w4a16_source from = {};
      from.qweight = reinterpret_cast<int32_t *>(qweight.data) + k0 * (source_n / 8);
      from.qzeros = reinterpret_cast<int32_t *>(qzeros.data) + k0 / source_group * (source_n / 8);
      from.scales = scales.data + k0 / source_group * source_n;
      from.scales_dtype = scales_dtype;
      from.words_per_row = source_n / 8;
      from.first_column = p.source_column;
      from.group = source_group;
      from.k_phase = k0 % source_group;
      check(yk_w4a16_pack(&d, packed.data, &from, p.first_column, p.n_columns, nullptr, &err), err);
    }
    check(cudaMemcpy(columns.data, map.data(), d.n * 8, cudaMemcpyHostToDevice), "columns");
    check(cudaDeviceSynchronize(), "pack");
  }

  awq tensors() const
  {
    return {reinterpret_cast<int32_t *>(qweight.data),
            reinterpret_cast<int32_t *>(qzeros.data),
            scales.data,
            scales_dtype,
            source_n,
            source_group,
            k0,
            columns.data};
  }

  int64_t width() const
  {
    return desc.gate_up ? desc.n / 2 : desc.n;
  }
};

struct errors {
  double normalised = 0; /* |y - reference| / |reference| over the tokens compared */
  int64_t bad = 0;       /* results that are not finite, over all tokens */
};

/* Run once into poisoned memory and compare up to 12 tokens, among them the first, the last and the edges of tiles. */
errors compare(const yk_w4a16_gpu &gpu, product &p, int64_t m, bool bias)
{
  std::vector<int64_t> rows;
  for (int64_t r : {int64_t(0), m - 1, m / 2, int64_t(7), int64_t(8), int64_t(63), int64_t(64), int64_t(127),
                    int64_t(128), m / 3, m - 2, m * 5 / 7})
    if (r >= 0 && r < m && std::find(rows.begin(), rows.end(), r) == rows.end()) rows.push_back(r);
  int64_t width = p.width();
  device_array<int64_t> rows_device(rows.size());
  device_array<double> exact_device(rows.size() * width);
  check(cudaMemcpy(rows_device.data, rows.data(), rows.size() * 8, cudaMemcpyHostToDevice), "rows");
  check(cudaMemset(p.y.data, 0xFF, p.y.count * 2), "poison"); /* NaN */
  yk_err err = YK_ERR_INIT;
  yk_w4a16_call call = {p.packed.data, bias ? p.bias.data : nullptr, p.x.data, p.y.data, m, p.workspace.data};
  check(yk_w4a16_forward(&gpu, &p.desc, &call, nullptr, &err), err);
  reference<<<dim3(unsigned((width + 63) / 64), unsigned(rows.size())), 64>>>(
      p.tensors(), p.x.data, bias ? p.bias.data : nullptr, p.desc, rows_device.data, exact_device.data);
  check(cudaDeviceSynchronize(), "product");
  std::vector<uint16_t> y(m * width);
  std::vector<double> exact(rows.size() * width);
  check(cudaMemcpy(y.data(), p.y.data, y.size() * 2, cudaMemcpyDeviceToHost), "results");
  check(cudaMemcpy(exact.data(), exact_device.data, exact.size() * 8, cudaMemcpyDeviceToHost), "reference");
  errors e;
  double error2 = 0, size2 = 0;
  for (uint16_t v : y) e.bad += !std::isfinite(to_double(v, p.desc.dtype));
  for (size_t r = 0; r < rows.size(); r++) {
    for (int64_t c = 0; c < width; c++) {
      double want = exact[r * width + c], got = to_double(y[rows[r] * width + c], p.desc.dtype);
      error2 += (got - want) * (got - want);
      size2 += want * want;
    }
  }
  e.normalised = std::sqrt(error2 / size2);
  return e;
}

/* Rounding of weights and results: 2^-11 (f16) and 2^-8 (bf16) at most each, about 3e-4 and 2.4e-3 in the mean square. */
double tolerance(yk_dtype dtype, bool gate_up)
{
  return (dtype == YK_F16 ? 5e-4 : 4e-3) * (gate_up ? 2.5 : 1);
}

/* ---- correctness over odd shapes ----------------------------------------------------------------------------------- */

struct check_case {
  int64_t k, n, group, source_group, k0, extra_columns;
  bool gate_up, parts;
};

const check_case CASES[] = {
    {128, 64, 128, 128, 0, 0, false, false},       {32, 8, 32, 32, 0, 0, false, false},
    {4096, 6144, 128, 128, 0, 0, false, true},     {4096, 1536, 64, 64, 0, 512, false, true},
    {1408, 4096, 128, 128, 1408, 0, false, false}, {96, 72, 32, 128, 32, 24, false, true},
    {4096, 2176, 128, 128, 0, 0, false, true},     {2400, 1000, 32, 32, 0, 0, false, false},
    {992, 2056, 32, 128, 4064, 0, false, false},   {1024, 24576, 128, 128, 0, 0, true, false},
    {4096, 8192, 128, 128, 0, 0, true, true},      {672, 1376, 32, 64, 288, 40, true, true},
    {160, 48, 160, 160, 0, 0, true, true},         {4096, 520, 4096, 4096, 0, 8, false, true},
    {12288, 4096, 128, 128, 0, 0, false, false},   {3072, 4096, 64, 128, 3136, 0, false, false},
    {2048, 4096, 256, 256, 0, 0, false, false},    {2464, 352, 32, 32, 0, 0, true, false},
};

std::vector<part> parts_of(const check_case &c)
{
  int64_t half = c.n / 2 / 8 * 8;
  if (!c.parts) return {{0, c.n, 0}};
  /* Two parts whose place in the source is swapped and shifted, so that nothing falls on its own column. */
  int64_t shift = c.extra_columns;
  return {{0, half, shift + c.n - half}, {half, c.n - half, shift}};
}

int run_checks(const options &o)
{
  int failures = 0, runs = 0;
  double worst[2] = {0, 0};
  uint64_t seed = o.seed;
  for (yk_w4a16_path path : {YK_W4A16_WGMMA, YK_W4A16_MMA}) {
    if (o.path != YK_W4A16_AUTO && o.path != path) continue;
    yk_w4a16_gpu gpu;
    yk_err err = YK_ERR_INIT;
    if (yk_w4a16_gpu_init(&gpu, path, &err) == YK_E_UNSUPPORTED) {
      std::printf("%s\n", err.message);
      continue;
    }
    for (const check_case &c : CASES) {
      for (yk_dtype dtype : {YK_F16, YK_BF16}) {
        yk_w4a16_desc d = {c.k, c.n, c.group, dtype, c.gate_up};
        yk_dtype scales = (seed / 16) % 3 == 0 ? YK_BF16 : YK_F16;
        std::vector<int64_t> ms = o.ms;
        for (int64_t m : {3, 17, 33, 65, 100, 130, 200, 257, 300, 1000}) ms.push_back(m);
        int64_t most = *std::max_element(ms.begin(), ms.end());
        product p(gpu, d, c.k0, c.n + c.extra_columns, c.source_group, scales, parts_of(c), most, seed += 16);
        for (int64_t m : ms) {
          bool bias = m % 2 == 0;
          errors e = compare(gpu, p, m, bias);
          std::vector<uint16_t> first(m * p.width()), second(m * p.width());
          check(cudaMemcpy(first.data(), p.y.data, first.size() * 2, cudaMemcpyDeviceToHost), "results");
          compare(gpu, p, m, bias);
          check(cudaMemcpy(second.data(), p.y.data, second.size() * 2, cudaMemcpyDeviceToHost), "results");
          bool same = first == second, good = e.bad == 0 && e.normalised < tolerance(dtype, c.gate_up) && same;
          worst[dtype == YK_BF16] = std::max(worst[dtype == YK_BF16], e.normalised);
          runs++;
          if (good) continue;
          failures++;
          std::printf(
              "FAIL %s k %lld n %lld group %lld/%lld k0 %lld gate_up %d %s m %lld: error %.2e, %lld not finite, %s\n",
              path == YK_W4A16_MMA ? "mma" : "wgmma", (long long)c.k, (long long)c.n, (long long)c.group,
              (long long)c.source_group, (long long)c.k0, c.gate_up, yk_dtype_name(dtype), (long long)m, e.normalised,
              (long long)e.bad, same ? "repeats" : "CHANGES");
        }
      }
    }
  }
  std::printf("%d products checked, %d failed; largest normalised error %.2e float16, %.2e bfloat16\n", runs, failures,
              worst[0], worst[1]);
  return failures != 0;
}

/* ---- timing --------------------------------------------------------------------------------------------------------- */

struct timing {
  double median_us = 0, low_us = 0, high_us = 0;
};

constexpr double WARM_UP_MS = 60; /* of replays before the first that counts: clocks rise with load */

/* Time of one node of a graph that launch(i) fills with n nodes. */
template <typename Launch> timing time_graph(cudaStream_t stream, int n, int repeats, Launch launch)
{
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaEvent_t from, to;
  check(cudaEventCreate(&from), "event");
  check(cudaEventCreate(&to), "event");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  for (int i = 0; i < n; i++) launch(i);
  check(cudaStreamEndCapture(stream, &graph), "capture");
  check(cudaGraphInstantiate(&exec, graph, 0), "graph");
  std::vector<double> us;
  for (double warm_ms = 0; us.size() < size_t(repeats);) {
    check(cudaEventRecord(from, stream), "event");
    check(cudaGraphLaunch(exec, stream), "graph");
    check(cudaEventRecord(to, stream), "event");
    check(cudaEventSynchronize(to), "graph");
    float ms;
    check(cudaEventElapsedTime(&ms, from, to), "event");
    if (warm_ms < WARM_UP_MS)
      warm_ms += ms;
    else
      us.push_back(ms * 1e3 / n);
  }
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaEventDestroy(from);
  cudaEventDestroy(to);
  std::sort(us.begin(), us.end());
  return {us[us.size() / 2], us.front(), us.back()};
}

struct machine {
  char gpu[256];
  int driver, runtime;
  double read_tbs, copy_tbs, peak_tflops;
};

void gemm(cublasHandle_t blas, yk_dtype dtype, const void *w, const void *x, void *y, int64_t m, int64_t n, int64_t k)
{
  float one = 1, zero = 0;
  cudaDataType_t type = dtype == YK_F16 ? CUDA_R_16F : CUDA_R_16BF;
  check(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, int(n), int(m), int(k), &one, w, type, int(k), x, type, int(k),
                     &zero, y, type, int(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cuBLAS");
}

machine measure_machine(cublasHandle_t blas, cudaStream_t stream)
{
  machine m = {};
  cudaDeviceProp properties;
  check(cudaGetDeviceProperties(&properties, 0), "device");
  std::snprintf(m.gpu, sizeof m.gpu, "%s", properties.name);
  check(cudaDriverGetVersion(&m.driver), "driver");
  check(cudaRuntimeGetVersion(&m.runtime), "runtime");
  const size_t bytes = size_t(2) << 30;
  device_array<uint8_t> a(bytes), b(bytes);
  fill_words<<<1024, 256>>>(reinterpret_cast<uint32_t *>(a.data), bytes / 4, 77);
  check(cudaDeviceSynchronize(), "fill");
  timing read = time_graph(stream, 2, 7, [&](int) {
    read_bytes<<<132 * 16, 512, 0, stream>>>(reinterpret_cast<uint4 *>(a.data), bytes / 16,
                                             reinterpret_cast<uint32_t *>(b.data));
  });
  timing copy = time_graph(stream, 2, 7, [&](int) {
    copy_bytes<<<132 * 16, 512, 0, stream>>>(reinterpret_cast<uint4 *>(a.data), reinterpret_cast<uint4 *>(b.data),
                                             bytes / 16);
  });
  const int64_t side = 8192;
  fill_halves<<<1024, 256>>>(reinterpret_cast<uint16_t *>(a.data), side * side * 2, YK_F16, -1, 1, 78);
  timing peak = time_graph(
      stream, 5, 7, [&](int) { gemm(blas, YK_F16, a.data, a.data + side * side * 2, b.data, side, side, side); });
  m.read_tbs = bytes / read.median_us * 1e-6;
  m.copy_tbs = 2.0 * bytes / copy.median_us * 1e-6;
  m.peak_tflops = 2.0 * side * side * side / peak.median_us * 1e-6;
  return m;
}

struct row {
  shape s;
  int64_t m;
  double error, floor_us, bytes, flops, marlin;
  timing ours, cublas;
};

/* Largest time that the bars allow: near the floor, and no slower than the 16-bit product and Marlin. */
double bar_us(const row &r)
{
  double bar = std::max(r.floor_us / 0.75, r.floor_us + 2.5);
  if (r.cublas.median_us > 0) bar = std::min(bar, r.cublas.median_us * (r.m <= 256 ? 1.0 : 1.05));
  if (r.marlin > 0) bar = std::min(bar, r.marlin);
  return bar;
}

void print_row(const row &r)
{
  double us = r.ours.median_us;
  std::printf("%-10s %5lldx%-5lld %5lld  %8.2f [%8.2f %8.2f] %8.2f %8.2f %8.1f  %5.2f  %6.2f %6.0f  %8.2f %s  %.1e\n",
              r.s.name, (long long)r.s.k, (long long)r.s.n, (long long)r.m, us, r.ours.low_us, r.ours.high_us,
              r.floor_us, r.cublas.median_us, r.marlin, r.floor_us / us, r.bytes / us * 1e-6, r.flops / us * 1e-6,
              bar_us(r), us <= bar_us(r) ? "ok  " : "MISS", r.error);
  std::fflush(stdout);
}

void write_json(const char *path, const options &o, const machine &m, const std::vector<row> &rows)
{
  FILE *f = std::fopen(path, "w");
  if (!f) fail(path, std::strerror(errno));
  std::fprintf(f,
               "{\"bench\": \"linear\", \"gpu\": \"%s\", \"driver_api\": %d, \"cuda_runtime\": %d, \"dtype\": \"%s\", "
               "\"group\": %lld,\n \"read_tb_s\": %.3f, \"copy_tb_s\": %.3f, \"cublas_8192_tflops\": %.1f, "
               "\"floor_tb_s\": %.3f, \"floor_tflops\": %.1f, \"repeats\": %d,\n \"rows\": [\n",
               m.gpu, m.driver, m.runtime, yk_dtype_name(o.dtype), (long long)o.group, m.read_tbs, m.copy_tbs,
               m.peak_tflops, o.bandwidth * 1e-12, o.peak * 1e-12, o.repeats);
  for (size_t i = 0; i < rows.size(); i++) {
    const row &r = rows[i];
    std::fprintf(
        f,
        "  {\"shape\": \"%s\", \"k\": %lld, \"n\": %lld, \"gate_up\": %s, \"m\": %lld, \"us\": %.3f, \"us_min\": "
        "%.3f, \"us_max\": %.3f, \"floor_us\": %.3f, \"cublas_us\": %.3f, \"marlin_quoted_us\": %.1f, "
        "\"efficiency\": %.3f, \"bytes\": %.0f, \"tflops\": %.1f, \"bar_us\": %.3f, \"met\": %s, \"error\": %.3e}%s\n",
        r.s.name, (long long)r.s.k, (long long)r.s.n, r.s.gate_up ? "true" : "false", (long long)r.m, r.ours.median_us,
        r.ours.low_us, r.ours.high_us, r.floor_us, r.cublas.median_us, r.marlin, r.floor_us / r.ours.median_us, r.bytes,
        r.flops / r.ours.median_us * 1e-6, bar_us(r), r.ours.median_us <= bar_us(r) ? "true" : "false", r.error,
        i + 1 < rows.size() ? "," : "");
  }
  std::fprintf(f, " ]}\n");
  std::fclose(f);
}

/* All sizes of one shape. */
void bench_shape(const options &o, const yk_w4a16_gpu &gpu, cublasHandle_t blas, cudaStream_t stream, const shape &s,
                 uint64_t seed, std::vector<row> &rows)
{
  int64_t most = *std::max_element(o.ms.begin(), o.ms.end());
  yk_w4a16_desc d = {s.k, s.n, o.group, o.dtype, s.gate_up && o.fused};
  product p(gpu, d, 0, s.n, o.group > 0 ? o.group : s.k, YK_F16, {{0, s.n, 0}}, most, seed);
  int copies = int(o.cold_bytes / p.packed.count + 2);
  size_t pitch = (p.packed.count + 255) / 256 * 256;
  device_array<uint8_t> cold(pitch * copies);
  for (int i = 0; i < copies; i++)
    check(cudaMemcpy(cold.data + i * pitch, p.packed.data, p.packed.count, cudaMemcpyDeviceToDevice), "copies");
  size_t plain_bytes = size_t(s.k) * s.n * 2;
  int plain_copies = int(o.cold_bytes / plain_bytes + 2);
  device_array<uint8_t> plain(o.cublas ? plain_bytes * plain_copies : 1);
  if (o.cublas) {
    expand<<<4096, 256>>>(p.tensors(), reinterpret_cast<uint16_t *>(plain.data), s.k, s.n, o.dtype);
    for (int i = 1; i < plain_copies; i++)
      check(cudaMemcpy(plain.data + i * plain_bytes, plain.data, plain_bytes, cudaMemcpyDeviceToDevice), "copies");
  }
  for (int64_t m : o.ms) {
    row r = {};
    r.s = s;
    r.m = m;
    errors e = compare(gpu, p, m, false);
    r.error = e.normalised;
    if (e.bad || !(e.normalised < tolerance(o.dtype, d.gate_up))) {
      std::printf("%s m %lld: WRONG, error %.2e, %lld not finite\n", s.name, (long long)m, e.normalised,
                  (long long)e.bad);
      std::exit(1);
    }
    double groups = std::ceil(double(s.k) / double(o.group));
    r.bytes = double(s.k) * s.n / 2 + groups * s.n * 2.5 + 2.0 * m * s.k + 2.0 * m * p.width();
    r.flops = 2.0 * m * s.k * s.n;
    r.floor_us = std::max((double(s.k) * s.n / 2 + groups * s.n * 2.5) / o.bandwidth, r.flops / o.peak) * 1e6;
    r.marlin = o.dtype == YK_F16 && o.group == 128 ? marlin_us(s, m) : 0;
    yk_err err = YK_ERR_INIT;
    int nodes = std::max(copies, r.floor_us < 50 ? 64 : 8);
    r.ours = time_graph(stream, nodes, o.repeats, [&](int i) {
      yk_w4a16_call call = {cold.data + size_t(i % copies) * pitch, nullptr, p.x.data, p.y.data, m, p.workspace.data};
      check(yk_w4a16_forward(&gpu, &d, &call, stream, &err), err);
    });
    if (o.cublas)
      r.cublas = time_graph(stream, std::max(plain_copies, r.floor_us < 50 ? 64 : 8), o.repeats, [&](int i) {
        gemm(blas, o.dtype, plain.data + size_t(i % plain_copies) * plain_bytes, p.x.data, p.y.data, m, s.n, s.k);
      });
    print_row(r);
    rows.push_back(r);
  }
}

const char *HELP =
    "bench_linear - W4A16 (AWQ) products, checked against float64 and timed with cold weights\n\n"
    "  --check            check odd shapes, groups, parts and both paths, twice each; no timing\n"
    "  --shapes A,B       of qkv o gate_up down, and with /2 /3 /4 the shard of so many ranks (default: all)\n"
    "  --m 1,16,...       tokens (default: powers of two from 1 to 8192)\n"
    "  --dtype NAME       float16 (default) or bfloat16\n"
    "  --group N          inputs a scale (default 128)\n"
    "  --path NAME        auto (default), mma or wgmma\n"
    "  --repeats N        graph replays timed (default 11; median, lowest and highest are printed)\n"
    "  --bandwidth TB/s   of the floor (default 4.35)      --peak TFLOP/s  of the floor (default 640)\n"
    "  --cold MB          of weight copies to rotate over (default 200)\n"
    "  --no-cublas        leave out the 16-bit product     --no-fuse  gate_up without SiLU*up\n"
    "  --seed N           of the data (default: the clock) --json FILE  write all figures\n\n"
    "Columns: time [lowest, highest], floor, cuBLAS in the same run, Marlin as quoted (0: none), efficiency\n"
    "(floor/time), TB/s, TFLOP/s, the bar and whether it is met, normalised error against float64.\n";

std::vector<std::string> split(const char *list)
{
  std::vector<std::string> out;
  for (const char *at = list; *at;) {
    size_t n = std::strcspn(at, ",");
    out.emplace_back(at, n);
    at += n + (at[n] == ',');
  }
  return out;
}

options parse(int argc, char **argv)
{
  options o;
  o.seed = static_cast<uint64_t>(time(nullptr));
  for (int i = 1; i < argc; i++) {
    std::string name = argv[i];
    if (name == "--help" || name == "-h") {
      std::fputs(HELP, stdout);
      std::exit(0);
    }
    if (name == "--check")
      o.check_only = true;
    else if (name == "--no-cublas")
      o.cublas = false;
    else if (name == "--no-fuse")
      o.fused = false;
    else {
      if (i + 1 >= argc) fail(name.c_str(), "unknown, or its value is missing; see --help");
      const char *value = argv[++i];
      if (name == "--shapes")
        o.shapes = split(value);
      else if (name == "--m") {
        o.ms.clear();
        for (const std::string &m : split(value)) o.ms.push_back(std::max(1ll, std::atoll(m.c_str())));
      } else if (name == "--dtype")
        o.dtype = std::strcmp(value, "bfloat16") == 0 ? YK_BF16 : YK_F16;
      else if (name == "--group")
        o.group = std::atoll(value);
      else if (name == "--path")
        o.path = !std::strcmp(value, "mma")     ? YK_W4A16_MMA
                 : !std::strcmp(value, "wgmma") ? YK_W4A16_WGMMA
                                                : YK_W4A16_AUTO;
      else if (name == "--repeats")
        o.repeats = std::max(1, std::atoi(value));
      else if (name == "--bandwidth")
        o.bandwidth = std::atof(value) * 1e12;
      else if (name == "--peak")
        o.peak = std::atof(value) * 1e12;
      else if (name == "--cold")
        o.cold_bytes = size_t(std::atoll(value)) << 20;
      else if (name == "--json")
        o.json = value;
      else if (name == "--seed")
        o.seed = std::strtoull(value, nullptr, 10);
      else
        fail(name.c_str(), "unknown; see --help");
    }
  }
  return o;
}

} // namespace

int main(int argc, char **argv)
{
  options o = parse(argc, argv);
  if (o.check_only) return run_checks(o);
  yk_w4a16_gpu gpu;
  yk_err err = YK_ERR_INIT;
  check(yk_w4a16_gpu_init(&gpu, o.path, &err), err);
  cublasHandle_t blas;
  cudaStream_t stream;
  check(cublasCreate(&blas), "cuBLAS");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  device_array<uint8_t> blas_workspace(64u << 20);
  check(cublasSetStream(blas, stream), "cuBLAS");
  check(cublasSetWorkspace(blas, blas_workspace.data, blas_workspace.count), "cuBLAS");
  machine m = measure_machine(blas, stream);
  std::printf("%s, driver API %d, CUDA %d: read %.2f TB/s, copy %.2f TB/s, cuBLAS f16 8192^3 %.0f TFLOP/s\n", m.gpu,
              m.driver, m.runtime, m.read_tbs, m.copy_tbs, m.peak_tflops);
  std::printf("%s, group %lld, floor at %.2f TB/s and %.0f TFLOP/s, seed %llu; microseconds\n", yk_dtype_name(o.dtype),
              (long long)o.group, o.bandwidth * 1e-12, o.peak * 1e-12, (unsigned long long)o.seed);
  std::printf("shape           k x n         m      time [  lowest  highest]    floor   cuBLAS   Marlin    eff    TB/s "
              "TFLOP/s     bar       error\n");
  std::vector<row> rows;
  uint64_t seed = o.seed;
  for (const shape &s : SHAPES)
    if (o.shapes.empty() || std::find(o.shapes.begin(), o.shapes.end(), s.name) != o.shapes.end())
      bench_shape(o, gpu, blas, stream, s, seed += 100, rows);
  int missed = 0;
  for (const row &r : rows) missed += r.ours.median_us > bar_us(r);
  std::printf("%zu points, %d bars missed\n", rows.size(), missed);
  if (o.json) write_json(o.json, o, m, rows);
  return 0;
}
