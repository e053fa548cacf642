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

#include "bench/linear_check.cuh"
#include "bench/report_file.cuh"

using namespace linear;

namespace {

struct options {
  std::vector<int64_t> ms = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};
  std::vector<std::string> shapes; /* empty: all */
  yk_dtype dtype = YK_F16;
  int64_t group = 128;
  yk_w4a16_path path = YK_W4A16_AUTO;
  int repeats = 11;
  double bandwidth = 4.35e12, peak = 640e12; /* of an H200, for the floor */
  size_t cold_bytes = 200u << 20;
  const char *json = "", *commit = "";
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

void write_json(FILE *f, const options &o, const machine &m, const std::vector<row> &rows)
{
  std::fprintf(f,
               "{\"bench\": \"linear\", \"commit\": \"%s\", \"warm_up_ms\": %.0f, \"gpu\": \"%s\", \"driver_api\": %d, "
               "\"cuda_runtime\": %d, \"dtype\": \"%s\", "
               "\"group\": %lld,\n \"read_tb_s\": %.3f, \"copy_tb_s\": %.3f, \"cublas_8192_tflops\": %.1f, "
               "\"floor_tb_s\": %.3f, \"floor_tflops\": %.1f, \"repeats\": %d,\n \"rows\": [\n",
               o.commit, WARM_UP_MS, m.gpu, m.driver, m.runtime, yk_dtype_name(o.dtype), (long long)o.group, m.read_tbs,
               m.copy_tbs, m.peak_tflops, o.bandwidth * 1e-12, o.peak * 1e-12, o.repeats);
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
}

/* Copies of a product's weights, so many that each is out of the L2 cache when its turn comes. */
struct cold_copies {
  size_t pitch;
  int count;
  device_array<uint8_t> memory;

  cold_copies(const options &o, size_t bytes)
      : pitch((bytes + 255) / 256 * 256), count(int(o.cold_bytes / bytes + 2)), memory(pitch * count)
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

/* Nodes of a graph: all copies' turns, and enough to hide its start. */
int n_nodes(const row &r, const cold_copies &copies)
{
  return std::max(copies.count, r.floor_us < 50 ? 64 : 8);
}

/* Compare with float64; a wrong result ends the program. */
double checked_error(const yk_w4a16_gpu &gpu, const options &o, product &p, const shape &s, int64_t m)
{
  errors e = compare(gpu, p, m, false, false);
  if (!e.bad && e.normalised < tolerance(o.dtype, p.desc.gate_up, m * p.width())) return e.normalised;
  std::printf("%s m %lld: WRONG, error %.2e, %lld not finite\n", s.name, (long long)m, e.normalised, (long long)e.bad);
  std::exit(1);
}

row bench_point(const options &o, const yk_w4a16_gpu &gpu, cublasHandle_t blas, cudaStream_t stream, const shape &s,
                int64_t m, uint64_t seed)
{
  yk_w4a16_desc d = {s.k, s.n, o.group, o.dtype, s.gate_up && o.fused};
  product p(gpu, d, 0, s.n, o.group > 0 ? o.group : s.k, YK_F16, {{0, s.n, 0}}, m, seed);
  row r = {.s = s, .m = m, .error = checked_error(gpu, o, p, s, m)};
  const double weights = double(s.k) * s.n / 2 + std::ceil(double(s.k) / double(o.group)) * s.n * 2.5;
  r.bytes = weights + 2.0 * m * s.k + 2.0 * m * p.width();
  r.flops = 2.0 * m * s.k * s.n;
  r.floor_us = std::max(weights / o.bandwidth, r.flops / o.peak) * 1e6;
  r.marlin = o.dtype == YK_F16 && o.group == 128 ? marlin_us(s, m) : 0;
  cold_copies packed(o, p.packed.count);
  packed.fill(p.packed.data, p.packed.count);
  yk_err err = YK_ERR_INIT;
  r.ours = time_graph(stream, n_nodes(r, packed), o.repeats, [&](int i) {
    yk_w4a16_call call = {packed[i], nullptr, p.x.data, p.y.data, m, p.workspace.data, i % 2 == 1};
    check(yk_w4a16_forward(&gpu, &d, &call, stream, &err), err);
  });
  if (!o.cublas) return r;
  cold_copies plain(o, size_t(s.k) * s.n * 2);
  device_array<uint16_t> expanded(s.k * s.n);
  expand<<<4096, 256>>>(p.tensors(), expanded.data, s.k, s.n, o.dtype);
  plain.fill(expanded.data, size_t(s.k) * s.n * 2);
  r.cublas = time_graph(stream, n_nodes(r, plain), o.repeats,
                        [&](int i) { gemm(blas, o.dtype, plain[i], p.x.data, p.y.data, m, s.n, s.k); });
  return r;
}

const char *HELP =
    "bench_linear - W4A16 (AWQ) products, checked against float64 and timed with cold weights\n\n"
    "  --check            check odd shapes, groups, parts and both paths, in both turns; no timing\n"
    "  --shapes A,B       of qkv o gate_up down, and with /2 /3 /4 the shard of so many ranks (default: all)\n"
    "  --m 1,16,...       tokens, in this order (default: powers of two from 1 to 8192); few before many: what heats\n"
    "                     the GPU slows what comes next\n"
    "  --dtype NAME       float16 (default) or bfloat16\n"
    "  --group N          inputs a scale (default 128)\n"
    "  --path NAME        auto (default), mma or wgmma\n"
    "  --repeats N        graph replays timed (default 11; median, lowest and highest are printed)\n"
    "  --bandwidth TB/s   of the floor (default 4.35)      --peak TFLOP/s  of the floor (default 640)\n"
    "  --cold MB          of weight copies to rotate over (default 200)\n"
    "  --no-cublas        leave out the 16-bit product     --no-fuse  gate_up without SiLU*up\n"
    "  --seed N           of the data (default: the clock) --json FILE  write all figures\n"
    "  --commit ID        recorded in the JSON\n\n"
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

[[noreturn]] void refuse(const std::string &option, const std::string &expected, const std::string &found)
{
  std::fprintf(stderr, "bench_linear: %s: expected %s, found \"%s\"; see --help\n", option.c_str(), expected.c_str(),
               found.c_str());
  std::exit(2);
}

/* A number in [min, max], and nothing after it. */
double number(const std::string &option, const std::string &text, double min, double max, const char *range)
{
  char *end;
  errno = 0;
  double v = std::strtod(text.c_str(), &end);
  if (text.empty() || *end || errno || !(v >= min && v <= max)) refuse(option, range, text);
  return v;
}

int64_t whole_number(const std::string &option, const std::string &text, int64_t max)
{
  double v = number(option, text, 1, double(max), ("a whole number from 1 to " + std::to_string(max)).c_str());
  if (v != std::floor(v)) refuse(option, "a whole number", text);
  return int64_t(v);
}

/* The index of text among names. */
size_t choice(const std::string &option, const std::string &text, const std::vector<std::string> &names)
{
  std::string all;
  for (size_t i = 0; i < names.size(); i++) {
    if (text == names[i]) return i;
    all += (i ? ", " : "") + names[i];
  }
  refuse(option, "one of " + all, text);
}

void parse_value(const std::string &name, const char *value, options *o)
{
  if (name == "--shapes") {
    std::vector<std::string> known;
    for (const shape &s : SHAPES) known.push_back(s.name);
    o->shapes = split(value);
    for (const std::string &s : o->shapes) choice(name, s, known);
  } else if (name == "--m") {
    o->ms.clear();
    for (const std::string &m : split(value)) o->ms.push_back(whole_number(name, m, 1 << 20));
    if (o->ms.empty()) refuse(name, "numbers of tokens", value);
  } else if (name == "--dtype") {
    o->dtype = choice(name, value, {"float16", "bfloat16"}) == 0 ? YK_F16 : YK_BF16;
  } else if (name == "--group") {
    o->group = whole_number(name, value, 1 << 24);
  } else if (name == "--path") {
    const yk_w4a16_path paths[] = {YK_W4A16_AUTO, YK_W4A16_MMA, YK_W4A16_WGMMA};
    o->path = paths[choice(name, value, {"auto", "mma", "wgmma"})];
  } else if (name == "--repeats") {
    o->repeats = int(whole_number(name, value, 10000));
  } else if (name == "--bandwidth") {
    o->bandwidth = number(name, value, 1e-3, 1e3, "TB/s from 0.001 to 1000") * 1e12;
  } else if (name == "--peak") {
    o->peak = number(name, value, 1e-3, 1e6, "TFLOP/s from 0.001 to 1000000") * 1e12;
  } else if (name == "--cold") {
    o->cold_bytes = size_t(whole_number(name, value, 1 << 20)) << 20;
  } else if (name == "--seed") {
    o->seed = uint64_t(whole_number(name, value, int64_t(1) << 53));
  } else if (name == "--json") {
    if (!*value) refuse(name, "a file", value);
    o->json = value;
  } else if (name == "--commit") {
    o->commit = value;
  } else {
    refuse("options", "those that --help tells", name);
  }
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
    if (name == "--check") {
      o.check_only = true;
    } else if (name == "--no-cublas") {
      o.cublas = false;
    } else if (name == "--no-fuse") {
      o.fused = false;
    } else {
      const char *value = i + 1 < argc ? argv[++i] : "";
      parse_value(name, value, &o);
    }
  }
  return o;
}

} // namespace

int main(int argc, char **argv)
{
  options o = parse(argc, argv);
  if (o.check_only) return run_checks(o.path, o.ms, o.seed);
  FILE *json = bench::open_report("bench_linear", o.json);
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
  std::printf("%s, group %lld, floor at %.2f TB/s and %.0f TFLOP/s, seed %llu; microseconds\n", yk_dtype_name(o.dtype),
              (long long)o.group, o.bandwidth * 1e-12, o.peak * 1e-12, (unsigned long long)o.seed);
  std::printf("shape           k x n         m      time [  lowest  highest]    floor   cuBLAS   Marlin    eff    TB/s "
              "TFLOP/s     bar       error\n");
  std::vector<row> rows;
  uint64_t seed = o.seed;
  for (int64_t tokens : o.ms) {
    for (const shape &s : SHAPES) {
      if (!o.shapes.empty() && std::find(o.shapes.begin(), o.shapes.end(), s.name) == o.shapes.end()) continue;
      rows.push_back(bench_point(o, gpu, blas, stream, s, tokens, seed += 100));
      print_row(rows.back());
    }
  }
  int missed = 0;
  for (const row &r : rows) missed += r.ours.median_us > bar_us(r);
  std::printf("%zu points, %d bars missed\n", rows.size(), missed);
  machine m = measure_machine(blas, stream);
  std::printf("%s, driver API %d, CUDA %d: read %.2f TB/s, copy %.2f TB/s, cuBLAS f16 8192^3 %.0f TFLOP/s\n", m.gpu,
              m.driver, m.runtime, m.read_tbs, m.copy_tbs, m.peak_tflops);
  if (json) write_json(json, o, m, rows);
  bench::close_report("bench_linear", o.json, json);
  return 0;
}
