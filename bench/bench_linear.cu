/* bench_linear.cu - GEMMs of quantised weights, timed with cold weights and compared with cuBLAS.
 * tests/op/test_op_cuda_linear_large.c checks them.
 *
 * Time is the median replay of a graph of consecutive GEMMs, divided by their number. The graph uses enough copies of
 * the weights that no copy is in the L2 cache when it is read again. The roofline of a GEMM is the larger of its bytes
 * over the memory's rate and its operations over the tensor cores' rate (--bandwidth, --peak). */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>
#include <string>
#include <vector>

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "bench/linear_formats.cuh"
#include "bench/linear_plans.cuh"
#include "yoke/process.h"

using namespace linear;

namespace {

const char *const DTYPE_NAMES[] = {"float16", "bfloat16", nullptr};
constexpr yk_dtype DTYPES[] = {YK_F16, YK_BF16};
const char *const PATH_NAMES[] = {"auto", "mma", "wgmma", nullptr};
constexpr yk_gemm_path PATHS[] = {YK_GEMM_AUTO, YK_GEMM_MMA, YK_GEMM_WGMMA};

struct options {
  bench::report_options report;
  std::vector<int64_t> ms = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  std::vector<std::string> shapes;                /* empty: all shapes of the model */
  int model = 0, format = 0, dtype = 0, path = 0; /* names of MODELS, FORMATS, DTYPES and PATHS */
  int32_t group = 128, repeats = 11, cold_mib = 200;
  double bandwidth_tb_s = 4.35, peak_tflop_s = 640; /* of an H200, for the roofline */
  bool no_cublas = false, no_fuse = false, plans = false;
  const char *fit = ""; /* file of times */
  int32_t fit_steps = 20000;
  uint64_t seed = 0;
};

struct shape {
  const char *name;
  int64_t k, n;
  bool gate_up;
};

/* Whole, and the largest shard of 2, 3 and 4 ranks. */
const shape QWEN3_8B[] = {
    {"qkv", 4096, 6144, false},       {"o", 4096, 4096, false},        {"gate_up", 4096, 24576, true},
    {"down", 12288, 4096, false},     {"qkv/2", 4096, 3072, false},    {"o/2", 2048, 4096, false},
    {"gate_up/2", 4096, 12288, true}, {"down/2", 6144, 4096, false},   {"qkv/3", 4096, 2176, false},
    {"o/3", 1408, 4096, false},       {"gate_up/3", 4096, 8192, true}, {"down/3", 4096, 4096, false},
    {"qkv/4", 4096, 1536, false},     {"o/4", 1024, 4096, false},      {"gate_up/4", 4096, 6144, true},
    {"down/4", 3072, 4096, false},
};

/* Attention of models with experts, whole and as a shard of 2 and 4 ranks. qkv of DeepSeek-V2-Lite is q_proj and
 * kv_a_proj; its published checkpoints have groups of 64. */
const shape QWEN3_30B_A3B[] = {
    {"qkv", 2048, 5120, false}, {"o", 4096, 2048, false},     {"qkv/2", 2048, 2560, false},
    {"o/2", 2048, 2048, false}, {"qkv/4", 2048, 1280, false}, {"o/4", 1024, 2048, false},
};
const shape DEEPSEEK_V2_LITE[] = {
    {"qkv", 2048, 3648, false}, {"o", 2048, 2048, false},     {"qkv/2", 2048, 2112, false},
    {"o/2", 1024, 2048, false}, {"qkv/4", 2048, 1344, false}, {"o/4", 512, 2048, false},
};
const char *const MODEL_NAMES[] = {"qwen3-8b", "qwen3-30b-a3b", "deepseek-v2-lite", nullptr};
struct shape_table {
  const shape *begin, *end;
};
const shape_table MODELS[] = {{std::begin(QWEN3_8B), std::end(QWEN3_8B)},
                              {std::begin(QWEN3_30B_A3B), std::end(QWEN3_30B_A3B)},
                              {std::begin(DEEPSEEK_V2_LITE), std::end(DEEPSEEK_V2_LITE)}};

/* The requested shapes of the model. */
std::vector<shape> shapes_of(const options &o)
{
  const auto wanted = [&](const shape &s) {
    return o.shapes.empty() || std::find(o.shapes.begin(), o.shapes.end(), s.name) != o.shapes.end();
  };
  std::vector<shape> shapes;
  std::copy_if(MODELS[o.model].begin, MODELS[o.model].end, std::back_inserter(shapes), wanted);
  yk_err err = YK_ERR_INIT;
  if (shapes.empty()) check(yk_err_set(&err, YK_E_INVAL, "--shapes: %s has none of them", MODEL_NAMES[o.model]), err);
  return shapes;
}

/* Quoted, not run: Marlin on the same kind of GPU, f16, group 128, cold, measured separately; microseconds. */
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

void cublas_gemm(cublasHandle_t blas, yk_dtype dtype, const void *w, const void *x, void *y, int64_t m, int64_t n,
                 int64_t k)
{
  float one = 1, zero = 0;
  cudaDataType_t type = dtype == YK_F16 ? CUDA_R_16F : CUDA_R_16BF;
  check(cublasGemmEx(blas, CUBLAS_OP_T, CUBLAS_OP_N, int(n), int(m), int(k), &one, w, type, int(k), x, type, int(k),
                     &zero, y, type, int(n), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
        "cuBLAS");
}

struct row {
  shape s;
  int64_t m;
  std::string plan; /* empty for the mma.sync path */
  double roofline_us, bytes, flops, marlin;
  timing ours, cublas;
  std::vector<std::pair<std::string, double>> step_us; /* medians */
};

/* Largest time that the goals allow: near the roofline, and no slower than the 16-bit GEMM and Marlin. */
double bar_us(const row &r)
{
  double bar = std::max(r.roofline_us / 0.75, r.roofline_us + 2.5);
  if (r.cublas.median_us > 0) bar = std::min(bar, r.cublas.median_us * (r.m <= 256 ? 1.0 : 1.05));
  if (r.marlin > 0) bar = std::min(bar, r.marlin);
  return bar;
}

void print_row(const row &r)
{
  double us = r.ours.median_us;
  std::printf("%-10s %5lldx%-5lld %5lld  %8.2f [%8.2f %8.2f] %8.2f %8.2f %8.1f  %5.2f  %6.2f %6.0f  %8.2f %s  %s",
              r.s.name, (long long)r.s.k, (long long)r.s.n, (long long)r.m, us, r.ours.low_us, r.ours.high_us,
              r.roofline_us, r.cublas.median_us, r.marlin, r.roofline_us / us, r.bytes / us * 1e-6, r.flops / us * 1e-6,
              bar_us(r), us <= bar_us(r) ? "ok  " : "MISS", r.plan.c_str());
  for (const auto &[name, median_us] : r.step_us) std::printf("  %s %.2f", name.c_str(), median_us);
  std::printf("\n");
  std::fflush(stdout);
}

/* peak_tflop_s: peak rate of the roofline. */
void write_json(FILE *f, const options &o, double peak_tflop_s, const bench::machine_rates &rates,
                const std::vector<row> &rows)
{
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  check(cudaGetDeviceProperties(&properties, 0), "device");
  check(cudaDriverGetVersion(&driver), "driver");
  check(cudaRuntimeGetVersion(&runtime), "runtime");
  std::fprintf(f,
               "{\"bench\": \"linear\", \"format\": \"%s\", \"commit\": \"%s\", \"warm_up_ms\": %.0f, \"gpu\": \"%s\", "
               "\"driver_api\": %d, "
               "\"cuda_runtime\": %d, \"dtype\": \"%s\", "
               "\"group\": %lld,\n \"read_tb_s\": %.3f, \"copy_tb_s\": %.3f, \"cublas_8192_tflops\": %.1f, "
               "\"roofline_tb_s\": %.3f, \"roofline_tflops\": %.1f, \"repeats\": %d,\n \"rows\": [\n",
               FORMATS[o.format].name, o.report.commit, WARM_UP_MS, properties.name, driver, runtime,
               yk_dtype_name(DTYPES[o.dtype]), (long long)o.group, rates.read_tb_s, rates.copy_tb_s,
               rates.matmul_tflop_s, o.bandwidth_tb_s, peak_tflop_s, o.repeats);
  for (size_t i = 0; i < rows.size(); i++) {
    const row &r = rows[i];
    std::fprintf(
        f,
        "  {\"shape\": \"%s\", \"k\": %lld, \"n\": %lld, \"gate_up\": %s, \"m\": %lld, \"us\": %.3f, \"us_min\": "
        "%.3f, \"us_max\": %.3f, \"roofline_us\": %.3f, \"cublas_us\": %.3f, \"marlin_quoted_us\": %.1f, "
        "\"efficiency\": %.3f, \"bytes\": %.0f, \"tflops\": %.1f, \"bar_us\": %.3f, \"met\": %s, "
        "\"plan\": \"%s\"",
        r.s.name, (long long)r.s.k, (long long)r.s.n, r.s.gate_up ? "true" : "false", (long long)r.m, r.ours.median_us,
        r.ours.low_us, r.ours.high_us, r.roofline_us, r.cublas.median_us, r.marlin, r.roofline_us / r.ours.median_us,
        r.bytes, r.flops / r.ours.median_us * 1e-6, bar_us(r), r.ours.median_us <= bar_us(r) ? "true" : "false",
        r.plan.c_str());
    for (const auto &[name, us] : r.step_us) std::fprintf(f, ", \"%s_us\": %.3f", name.c_str(), us);
    std::fprintf(f, "}%s\n", i + 1 < rows.size() ? "," : "");
  }
  std::fprintf(f, " ]}\n");
}

/* Enough copies of a GEMM's weights that each has left the L2 cache when it is read again. */
struct cold_copies {
  size_t pitch;
  int count;
  device_array<uint8_t> memory;

  cold_copies(const options &o, size_t bytes)
      : pitch((bytes + 255) / 256 * 256), count(int((size_t(o.cold_mib) << 20) / bytes + 2)), memory(pitch * count)
  {
  }
  uint8_t *operator[](int i) const
  {
    return memory.data + size_t(i % count) * pitch;
  }
  void fill(const void *from, size_t bytes)
  {
    for (int i = 0; i < count; i++) check(cudaMemcpy((*this)[i], from, bytes, cudaMemcpyDeviceToDevice), "copies");
  }
};

/* Nodes of a graph: every copy at least once, and enough nodes to hide the launch of the graph. */
int n_nodes(const row &r, const cold_copies &copies)
{
  return std::max(copies.count, r.roofline_us < 50 ? 64 : 8);
}

/* One call without bias. weights: a copy of the packed weights. */
void forward(const yk_gemm_gpu &gpu, const gemm_case &p, const yk_gemm_plans &plans, const uint8_t *weights, int64_t m,
             bool second_half, cudaStream_t stream)
{
  yk_err err = YK_ERR_INIT;
  yk_gemm_call call = {weights, nullptr, p.x.data, p.y.data, m, p.workspace.data, second_half};
  check(yk_gemm_forward(&gpu, &p.desc, &plans, &call, stream, &err), err);
}

row bench_point(const options &o, double peak_tflop_s, const yk_gemm_gpu &gpu, cublasHandle_t blas, cudaStream_t stream,
                const shape &s, int64_t m, uint64_t seed)
{
  const gemm_shape shape = {s.k, s.n, o.group, DTYPES[o.dtype], s.gate_up && !o.no_fuse};
  const std::unique_ptr<timed_gemm> gemm = FORMATS[o.format].make(gpu, shape, m, seed);
  row r = {.s = s, .m = m, .plan = gemm->plan()};
  r.bytes = gemm->weight_bytes() + 2.0 * m * s.k + 2.0 * m * (shape.gate_up ? s.n / 2 : s.n);
  r.flops = 2.0 * m * s.k * s.n;
  r.roofline_us = std::max(gemm->weight_bytes() / o.bandwidth_tb_s, r.flops / peak_tflop_s) * 1e-6;
  r.marlin = o.format == 0 && DTYPES[o.dtype] == YK_F16 && o.group == 128 ? marlin_us(s, m) : 0;
  cold_copies packed(o, gemm->packed().count);
  packed.fill(gemm->packed().data, gemm->packed().count);
  r.ours = time_graph(stream, n_nodes(r, packed), o.repeats, WARM_UP_MS,
                      [&](int i) { gemm->forward(packed[i], i % 2 == 1, stream); });
  for (const step &part : gemm->steps())
    r.step_us.emplace_back(part.name, time_graph(stream, n_nodes(r, packed), o.repeats, WARM_UP_MS, [&](int i) {
                                        part.launch(packed[i], stream);
                                      }).median_us);
  if (o.no_cublas) return r;
  cold_copies plain(o, size_t(s.k) * s.n * 2);
  device_array<uint16_t> random(s.k * s.n);
  fill_halves<<<1024, 256>>>(random.data, random.count, DTYPES[o.dtype], -0.05f, 0.05f, seed);
  plain.fill(random.data, size_t(s.k) * s.n * 2);
  r.cublas = time_graph(stream, n_nodes(r, plain), o.repeats, WARM_UP_MS, [&](int i) {
    cublas_gemm(blas, DTYPES[o.dtype], plain[i], gemm->x(), gemm->y(), m, s.n, s.k);
  });
  return r;
}

/* ---- plans ------------------------------------------------------------------------------------------------------- */

/* Every plan of a point: short measurements of plans with a plausible estimate, then longer ones of the fastest. */
plan_point time_plans(const yk_gemm_gpu &gpu, cudaStream_t stream, const std::string &name, const gemm_case &p,
                      const cold_copies &packed, int64_t m)
{
  constexpr double WORST_ESTIMATE = 1.6, WORST_LOOK = 1.15;
  constexpr double COLD_MS = 15, LOOK_MS = 1.5, TIME_MS = 3; /* of warm-up replays */
  constexpr int LOOKS = 3, TIMES = 7, LARGE_TOKENS = 256;
  plan_point point = {name, p.desc, m, {}};
  const yk_gemm::gemm_costs &costs = yk_gemm::costs_of(gpu, p.desc.encoding);
  const int nodes = std::max(packed.count, m <= LARGE_TOKENS ? 48 : 4);
  auto time = [&](yk_gemm_plan plan, double warm_up_ms, int repeats) {
    yk_gemm_plans plans;
    std::fill(std::begin(plans.of_bucket), std::end(plans.of_bucket), plan);
    return time_graph(stream, nodes, repeats, warm_up_ms,
                      [&](int i) { forward(gpu, p, plans, packed[i], m, i % 2 == 1, stream); })
        .median_us;
  };
  auto estimate = [&](yk_gemm_plan plan) { return yk_gemm::plan_us(costs, gpu, p.desc, m, plan); };
  const yk_gemm_plan chosen = yk_gemm::best_plan(costs, gpu, p.desc, m);
  time(chosen, COLD_MS, 1);
  for (yk_gemm_plan plan : yk_gemm::plans_of(gpu, p.desc, m)) {
    const bool hopeless = estimate(plan) > WORST_ESTIMATE * estimate(chosen);
    point.plans.push_back({plan, hopeless ? 0.0 : time(plan, LOOK_MS, LOOKS)});
  }
  const double fastest = point.best_us();
  for (timed_plan &t : point.plans)
    if (t.us > 0 && t.us < WORST_LOOK * fastest) t.us = time(t.plan, TIME_MS, TIMES);
  return point;
}

void bench_plans(const options &o, const std::vector<shape> &shapes, const yk_gemm_gpu &gpu, cudaStream_t stream)
{
  std::vector<plan_point> points;
  yk_err err = YK_ERR_INIT;
  if (!FORMATS[o.format].has_plans)
    check(yk_err_set(&err, YK_E_UNSUPPORTED, "--plans: the format has no plans to choose from"), err);
  if (gpu.path != YK_GEMM_WGMMA)
    check(yk_err_set(&err, YK_E_UNSUPPORTED, "--plans: the mma.sync path has no plans to choose from"), err);
  print_plans_header(gpu, o.report.commit);
  for (const shape &s : shapes) {
    const yk_gemm_desc d = {
        s.k, s.n, o.group, DTYPES[o.dtype], bench::silu_where(s.gate_up && !o.no_fuse), FORMATS[o.format].encoding};
    gemm_case p(gpu, d, *std::max_element(o.ms.begin(), o.ms.end()), o.seed);
    cold_copies packed(o, p.packed.count);
    packed.fill(p.packed.data, p.packed.count);
    for (int64_t m : o.ms) {
      points.push_back(time_plans(gpu, stream, s.name, p, packed, m));
      print_point(points.back());
    }
  }
  print_worth(points);
}

int fit(const options &o)
{
  yk_gemm_gpu gpu;
  const std::vector<plan_point> points = read_points(o.fit, FORMATS[o.format].encoding, &gpu);
  print_worth(points);
  fit_costs(points, gpu, o.fit_steps, o.seed);
  return 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

yk_status parse_tokens(void *user, const char *text, yk_err *err)
{
  std::vector<int64_t> &ms = *static_cast<std::vector<int64_t> *>(user);
  std::vector<int32_t> numbers;
  YK_TRY(bench::parse_numbers(text, numbers, err));
  for (int32_t m : numbers)
    if (m < 1 || m > 1 << 20) return yk_err_set(err, YK_E_INVAL, "expected 1 to %d tokens, found %d", 1 << 20, m);
  ms.assign(numbers.begin(), numbers.end());
  return YK_OK;
}

yk_status parse_shapes(void *user, const char *text, yk_err *err)
{
  std::vector<std::string> &shapes = *static_cast<std::vector<std::string> *>(user);
  shapes.clear();
  for (const char *at = text;; at++) {
    shapes.emplace_back(at, std::strcspn(at, ","));
    const auto is_it = [&](const shape &s) { return shapes.back() == s.name; };
    if (std::none_of(std::begin(QWEN3_8B), std::end(QWEN3_8B), is_it))
      return yk_err_set(err, YK_E_INVAL, "expected qkv, o, gate_up or down, alone or with /2, /3 or /4, found \"%s\"",
                        shapes.back().c_str());
    at += shapes.back().size();
    if (!*at) return YK_OK;
  }
}

options parse(int argc, char **argv)
{
  options o;
  std::vector<yk_option> options = {
      {.name = "format",
       .kind = YK_OPTION_CHOICE,
       .value = &o.format,
       .help = "of the weights",
       .choices = FORMAT_NAMES},
      {.name = "plans",
       .kind = YK_OPTION_FLAG,
       .value = &o.plans,
       .help =
           "time every plan (kernel, tile M x N, cluster, sliced-K, split-K or stream-K) of every shape and number of "
           "tokens, and print what each tile is worth"},
      {.name = "fit",
       .kind = YK_OPTION_STRING,
       .value = &o.fit,
       .metavar = "FILE",
       .help = "fit the constants that choose plans to the times that --plans printed; needs no GPU"},
      {.name = "fit-steps",
       .kind = YK_OPTION_INT,
       .value = &o.fit_steps,
       .metavar = "N",
       .help = "of the fit's random search",
       .min = 0,
       .max = 100000000},
      {.name = "model",
       .kind = YK_OPTION_CHOICE,
       .value = &o.model,
       .help = "whose shapes; of a mixture those of its attention",
       .choices = MODEL_NAMES},
      {.name = "shapes",
       .kind = YK_OPTION_CALL,
       .value = &o.shapes,
       .metavar = "LIST",
       .help = "of qkv, o, gate_up, down, and with /2, /3, /4 the shard of so many ranks",
       .fallback = "all",
       .parse = parse_shapes},
      {.name = "m",
       .kind = YK_OPTION_CALL,
       .value = &o.ms,
       .metavar = "LIST",
       .help = "tokens, in this order; few before many, since what heats the GPU slows what comes next",
       .fallback = "powers of two from 1 to 8192",
       .parse = parse_tokens},
      {.name = "dtype", .kind = YK_OPTION_CHOICE, .value = &o.dtype, .help = "of activations", .choices = DTYPE_NAMES},
      {.name = "group",
       .kind = YK_OPTION_INT,
       .value = &o.group,
       .metavar = "N",
       .help = "inputs that share a scale",
       .min = 1,
       .max = 1 << 24},
      {.name = "path", .kind = YK_OPTION_CHOICE, .value = &o.path, .help = "which kernels", .choices = PATH_NAMES},
      {.name = "repeats",
       .kind = YK_OPTION_INT,
       .value = &o.repeats,
       .metavar = "N",
       .help = "graph replays timed",
       .min = 1,
       .max = 10000},
      {.name = "bandwidth",
       .kind = YK_OPTION_NUMBER,
       .value = &o.bandwidth_tb_s,
       .metavar = "TB/s",
       .help = "of the roofline",
       .min = 1e-3,
       .max = 1e3},
      {.name = "peak",
       .kind = YK_OPTION_NUMBER,
       .value = &o.peak_tflop_s,
       .metavar = "TFLOP/s",
       .help = "of the roofline; w8a8: the best of cuBLASLt's int8 product is measured instead",
       .min = 1e-3,
       .max = 1e6},
      {.name = "cold",
       .kind = YK_OPTION_INT,
       .value = &o.cold_mib,
       .metavar = "MIB",
       .help = "of weight copies to rotate over",
       .min = 1,
       .max = 1 << 20},
      {.name = "no-cublas", .kind = YK_OPTION_FLAG, .value = &o.no_cublas, .help = "leave out the 16-bit GEMM"},
      {.name = "no-fuse", .kind = YK_OPTION_FLAG, .value = &o.no_fuse, .help = "gate_up without SiLU*up"},
      {.name = "seed",
       .kind = YK_OPTION_SEED,
       .value = &o.seed,
       .metavar = "N",
       .help = "of the data",
       .fallback = "the clock"}};
  add_options(options, o.report);
  bench::parse_options(
      "bench_linear",
      "A GEMM of quantised weights, timed with cold weights. Columns: median "
      "time [lowest, highest], roofline, cuBLAS in the same run, Marlin as quoted (0: none), efficiency (roofline / "
      "time), TB/s, TFLOP/s, the bar and whether it is met, and the plan: kernel, tile M and N, cluster, and how K is "
      "split.",
      "  bench_linear --shapes qkv,o/2 --m 1,16 --json linear.json\n", options, argc, argv);
  if (o.seed == 0) o.seed = static_cast<uint64_t>(time(nullptr));
  return o;
}

} // namespace

int main(int argc, char **argv)
{
  yk_process_init();
  options o = parse(argc, argv);
  const std::vector<shape> shapes = shapes_of(o);
  if (*o.fit) return fit(o);
  FILE *json = o.plans ? nullptr : bench::open_figures(o.report);
  yk_gemm_gpu gpu;
  yk_err err = YK_ERR_INIT;
  check(yk_gemm_gpu_init(&gpu, PATHS[o.path], &err), err);
  cublasHandle_t blas;
  cudaStream_t stream;
  check(cublasCreate(&blas), "cuBLAS");
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  if (o.plans) {
    bench_plans(o, shapes, gpu, stream);
    return 0;
  }
  device_array<uint8_t> blas_workspace(64u << 20);
  check(cublasSetStream(blas, stream), "cuBLAS");
  check(cublasSetWorkspace(blas, blas_workspace.data, blas_workspace.count), "cuBLAS");
  const format &format = FORMATS[o.format];
  const double peak_tflop_s = format.measure_peak ? format.measure_peak(stream) : o.peak_tflop_s;
  std::printf("%s, %s, group %lld, roofline at %.2f TB/s and %.0f TFLOP/s, seed %llu; microseconds\n", format.name,
              yk_dtype_name(DTYPES[o.dtype]), (long long)o.group, o.bandwidth_tb_s, peak_tflop_s,
              (unsigned long long)o.seed);
  std::printf("shape           k x n         m      time [  lowest  highest] roofline   cuBLAS   Marlin    eff    TB/s "
              "TFLOP/s     bar       plan\n");
  std::vector<row> rows;
  uint64_t seed = o.seed;
  for (int64_t tokens : o.ms) {
    for (const shape &s : shapes) {
      rows.push_back(bench_point(o, peak_tflop_s, gpu, blas, stream, s, tokens, seed += 100));
      print_row(rows.back());
    }
  }
  int missed = 0;
  for (const row &r : rows) missed += r.ours.median_us > bar_us(r);
  std::printf("%zu points, %d bars missed\n", rows.size(), missed);
  const bench::machine_rates rates = bench::measure_rates(stream);
  std::printf("read %.2f TB/s, copy %.2f TB/s, cuBLAS f16 8192^3 %.0f TFLOP/s\n", rates.read_tb_s, rates.copy_tb_s,
              rates.matmul_tflop_s);
  if (json) write_json(json, o, peak_tflop_s, rates, rows);
  bench::close_figures(o.report, json);
  return 0;
}
