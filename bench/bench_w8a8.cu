/* bench_w8a8.cu - the W8A8 GEMM with cold weights, with and without quantising x, beside cuBLAS with 16-bit floats and
 * cuBLASLt's product of int8 matrices, whose best rate at 4096 x 4096 x 24576 is the limit of all rates.
 *
 * Each point is compared with sums of one thread an element first: they must be equal. Time is that of a node of a
 * graph that goes through so many copies of the weights that none is in the L2 cache when it is read again. */
#include <memory>

#include <cublasLt.h>

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/gemm/wna16.h"
#include "kernels/cuda/rows/quantise.h"
#include "kernels/cuda/w8a8/w8a8.h"

namespace {

constexpr double BANDWIDTH_TB_S = 4.35; /* of an H200 */
constexpr size_t COLD_BYTES = size_t(200) << 20, WORKSPACE_BYTES = size_t(64) << 20;
constexpr int REPEATS = 7, LIMIT_M = 4096, MOST_ALGORITHMS = 5;

struct gemm_shape {
  const char *name;
  int64_t k, n;
  bool gate_up;
};
const gemm_shape SHAPES[] = {{"gate_up", 4096, 24576, true}, {"qkv", 4096, 6144, false},
                             {"o", 4096, 4096, false},       {"down", 12288, 4096, false},
                             {"qkv/4", 4096, 1536, false},   {"down/4", 3072, 4096, false}};

template <typename T> struct array {
  T *data = nullptr;
  explicit array(size_t n)
  {
    CUDA_OK(cudaMalloc(&data, n * sizeof(T)));
    CUDA_OK(cudaMemset(data, 0, n * sizeof(T)));
  }
  ~array()
  {
    cudaFree(data);
  }
  array(const array &) = delete;
};

struct machine {
  cudaStream_t stream;
  yk_wna16_gpu gpu;
  cublasHandle_t blas;
  cublasLtHandle_t lt;
  std::unique_ptr<array<char>> workspace, blas_workspace;
};

__global__ void fill_bytes(int8_t *dst, size_t n, unsigned seed)
{
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n; i += size_t(gridDim.x) * blockDim.x) {
    unsigned x = unsigned(i) * 2654435761u ^ seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    dst[i] = static_cast<int8_t>(static_cast<int>(x % 255) - 127);
  }
}

/* How many sums [m, n] differ from those of products of x and w [n, k], one thread each. */
__global__ void count_wrong(const int8_t *x, const int8_t *w, const int32_t *sums, int64_t m, int64_t n, int64_t k,
                            unsigned *wrong)
{
  const int64_t at = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (at >= m * n) return;
  int sum = 0;
  for (int64_t i = 0; i < k; i++) sum += x[at / n * k + i] * w[at % n * k + i];
  if (sum != sums[at]) atomicAdd(wrong, 1u);
}

/* A layer's weights, packed and as they come, in copies. */
struct layer {
  yk_w8a8_desc desc;
  size_t packed_bytes;
  int n_copies, n_wide_copies;
  array<int8_t> w;
  array<float> scales;
  array<char> packed;
  array<__half> wide; /* as 16-bit floats */

  explicit layer(const machine &on, const gemm_shape &s, bool gate_up)
      : desc{s.k, s.n, 0, gate_up}, packed_bytes((size_t(yk_w8a8_packed_bytes(&desc)) + 1023) / 1024 * 1024),
        n_copies(int(COLD_BYTES / packed_bytes) + 2), n_wide_copies(int(COLD_BYTES / (size_t(s.k) * s.n * 2)) + 2),
        w(size_t(s.k) * s.n), scales(size_t(s.n)), packed(packed_bytes * size_t(n_copies)),
        wide(size_t(s.k) * s.n * size_t(n_wide_copies))
  {
    yk_err err = YK_ERR_INIT;
    const yk_w8a8_source source = {w.data, scales.data};
    fill_bytes<<<1024, 256, 0, on.stream>>>(w.data, size_t(s.k) * s.n, 7u);
    bench::fill_random<<<1024, 256, 0, on.stream>>>(wide.data, size_t(s.k) * s.n * size_t(n_wide_copies), 8u);
    for (int i = 0; i < n_copies; i++)
      bench::check(yk_w8a8_pack(&desc, copy(i), &source, 0, s.n, on.stream, &err), err);
  }
  char *copy(int i) const
  {
    return packed.data + size_t(i % n_copies) * packed_bytes;
  }
};

/* Rows of x as they are and quantised, and results. */
struct rows {
  array<__half> x, y;
  array<int8_t> quants;
  array<float> scales;
  array<int32_t> sums;

  rows(const machine &on, const gemm_shape &s, int64_t m)
      : x(size_t(m * s.k)), y(size_t(m * s.n)), quants(size_t(m * s.k)), scales(size_t(m + YK_W8A8_ROW_MULTIPLE)),
        sums(size_t(m * s.n))
  {
    bench::fill_random<<<1024, 256, 0, on.stream>>>(x.data, size_t(m * s.k), 9u);
  }
};

void quantise(const machine &on, const rows &r, int64_t m, int64_t k)
{
  const yk_cuda_quantise_args args = {r.x.data, r.quants.data, r.scales.data, nullptr, m, k, k, 0.0f, 0};
  CUDA_OK(yk_cuda_launch_quantise(YK_F16, &args, on.stream));
}

void multiply(const machine &on, const layer &l, const rows &r, int64_t m, int copy, bool sums)
{
  yk_err err = YK_ERR_INIT;
  yk_w8a8_call call = {};
  call.packed = l.copy(copy);
  call.x = r.quants.data;
  call.x_scales = r.scales.data;
  call.y = sums ? nullptr : r.y.data;
  call.y_dtype = YK_F16;
  call.y_stride = l.desc.gate_up ? l.desc.n / 2 : l.desc.n;
  call.sums = r.sums.data;
  call.m = m;
  call.workspace = on.workspace->data;
  bench::check(yk_w8a8_forward(&on.gpu, &l.desc, &call, on.stream, &err), err);
}

template <typename F> double time_us(const machine &on, int n_nodes, F launch)
{
  cudaGraphExec_t graph = bench::capture(on.stream, [&](cudaStream_t) {
    for (int i = 0; i < n_nodes; i++) launch(i);
  });
  for (int i = 0; i < 3; i++) bench::time_graph(on.stream, graph, n_nodes, 1); /* clocks rise with load */
  const double us = bench::time_graph(on.stream, graph, n_nodes, REPEATS).median;
  CUDA_OK(cudaGraphExecDestroy(graph));
  return us;
}

double cublas_us(const machine &on, const layer &l, const rows &r, int64_t m, int n_nodes)
{
  const float one = 1, zero = 0;
  const int k = int(l.desc.k), n = int(l.desc.n);
  return time_us(on, std::max(n_nodes, l.n_wide_copies), [&](int i) {
    const __half *w = l.wide.data + size_t(i % l.n_wide_copies) * size_t(k) * size_t(n);
    bench::check(cublasGemmEx(on.blas, CUBLAS_OP_T, CUBLAS_OP_N, n, int(m), k, &one, w, CUDA_R_16F, k, r.x.data,
                              CUDA_R_16F, k, &zero, r.y.data, CUDA_R_16F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
                 "cuBLAS");
  });
}

/* The best of cuBLASLt's own choices; 0 where it has none (fewer than 16 rows). */
double lt_us(const machine &on, const layer &l, const rows &r, int64_t m, int n_nodes)
{
  const int32_t one = 1, zero = 0;
  const uint64_t k = uint64_t(l.desc.k), n = uint64_t(l.desc.n);
  const cublasOperation_t transposed = CUBLAS_OP_T;
  cublasLtMatmulDesc_t product;
  cublasLtMatrixLayout_t w, x, y;
  cublasLtMatmulPreference_t preference;
  cublasLtMatmulHeuristicResult_t found[MOST_ALGORITHMS];
  int n_found = 0;
  bench::check(cublasLtMatmulDescCreate(&product, CUBLAS_COMPUTE_32I, CUDA_R_32I), "cuBLASLt");
  cublasLtMatmulDescSetAttribute(product, CUBLASLT_MATMUL_DESC_TRANSA, &transposed, sizeof transposed);
  bench::check(cublasLtMatrixLayoutCreate(&w, CUDA_R_8I, k, n, int64_t(k)), "cuBLASLt");
  bench::check(cublasLtMatrixLayoutCreate(&x, CUDA_R_8I, k, uint64_t(m), int64_t(k)), "cuBLASLt");
  bench::check(cublasLtMatrixLayoutCreate(&y, CUDA_R_32I, n, uint64_t(m), int64_t(n)), "cuBLASLt");
  bench::check(cublasLtMatmulPreferenceCreate(&preference), "cuBLASLt");
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &WORKSPACE_BYTES,
                                       sizeof WORKSPACE_BYTES);
  cublasLtMatmulAlgoGetHeuristic(on.lt, product, w, x, y, y, preference, MOST_ALGORITHMS, found, &n_found);
  double best = 0;
  for (int a = 0; a < n_found; a++) {
    const auto run = [&](int i) {
      return cublasLtMatmul(on.lt, product, &one, l.copy(i), w, r.quants.data, x, &zero, r.sums.data, y, r.sums.data, y,
                            &found[a].algo, on.blas_workspace->data, WORKSPACE_BYTES, on.stream);
    };
    if (run(0) != CUBLAS_STATUS_SUCCESS) continue;
    const double us = time_us(on, n_nodes, [&](int i) { bench::check(run(i), "cuBLASLt"); });
    if (best == 0 || us < best) best = us;
  }
  cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t matrix : {w, x, y}) cublasLtMatrixLayoutDestroy(matrix);
  cublasLtMatmulDescDestroy(product);
  return best;
}

void check_sums(const machine &on, const gemm_shape &s, int64_t m)
{
  const layer l(on, s, false);
  const rows r(on, s, m);
  const array<unsigned> wrong(1);
  unsigned n_wrong = 0;
  quantise(on, r, m, s.k);
  multiply(on, l, r, m, 0, true);
  const unsigned blocks = static_cast<unsigned>((m * s.n + 255) / 256);
  count_wrong<<<blocks, 256, 0, on.stream>>>(r.quants.data, l.w.data, r.sums.data, m, s.n, s.k, wrong.data);
  CUDA_OK(cudaStreamSynchronize(on.stream));
  CUDA_OK(cudaMemcpy(&n_wrong, wrong.data, sizeof n_wrong, cudaMemcpyDeviceToHost));
  if (n_wrong == 0) return;
  std::printf("%s m %lld: WRONG, %u sums\n", s.name, (long long)m, n_wrong);
  std::exit(1);
}

struct point {
  const gemm_shape *shape;
  int64_t m;
  double quantise_us, gemm_us, both_us, cublas_us, lt_us, floor_us;

  double bar_us() const
  {
    return std::max(floor_us / 0.75, floor_us + 2.5);
  }
};

point time_point(const machine &on, const gemm_shape &s, const layer &l, int64_t m, double limit_tops)
{
  const rows r(on, s, m);
  const double tera_operations = 2e-12 * double(m) * double(s.k) * double(s.n);
  const int n_nodes = std::max(l.n_copies, tera_operations / limit_tops < 50e-6 ? 64 : 8);
  point p = {.shape = &s, .m = m};
  quantise(on, r, m, s.k);
  p.quantise_us = time_us(on, n_nodes, [&](int) { quantise(on, r, m, s.k); });
  p.gemm_us = time_us(on, n_nodes, [&](int i) { multiply(on, l, r, m, i, false); });
  p.both_us = time_us(on, n_nodes, [&](int i) {
    quantise(on, r, m, s.k);
    multiply(on, l, r, m, i, false);
  });
  p.cublas_us = cublas_us(on, l, r, m, n_nodes);
  p.lt_us = lt_us(on, l, r, m, n_nodes);
  p.floor_us = std::max(double(s.k) * double(s.n) / BANDWIDTH_TB_S * 1e-6, tera_operations / limit_tops * 1e6);
  return p;
}

void print_point(const point &p)
{
  std::printf("%-8s %5lldx%-5lld %5lld  %8.2f %8.2f %8.2f  %8.2f %8.2f  %8.2f %8.2f %s %5.2f\n", p.shape->name,
              (long long)p.shape->k, (long long)p.shape->n, (long long)p.m, p.quantise_us, p.gemm_us, p.both_us,
              p.cublas_us, p.lt_us, p.floor_us, p.bar_us(), p.both_us <= p.bar_us() ? "ok  " : "MISS",
              p.cublas_us / p.both_us);
  std::fflush(stdout);
}

void write_json(FILE *f, const bench::report_options &o, double limit_tops, const std::vector<point> &points)
{
  cudaDeviceProp properties;
  int driver = 0;
  CUDA_OK(cudaGetDeviceProperties(&properties, 0));
  CUDA_OK(cudaDriverGetVersion(&driver));
  std::fprintf(f,
               "{\"bench\": \"w8a8\", \"commit\": \"%s\", \"gpu\": \"%s\", \"driver_api\": %d, \"dtype\": \"float16\", "
               "\"roofline_tb_s\": %.2f, \"cublaslt_int8_tops\": %.0f, \"repeats\": %d,\n \"rows\": [\n",
               o.commit, properties.name, driver, BANDWIDTH_TB_S, limit_tops, REPEATS);
  for (size_t i = 0; i < points.size(); i++) {
    const point &p = points[i];
    std::fprintf(f,
                 "  {\"shape\": \"%s\", \"k\": %lld, \"n\": %lld, \"m\": %lld, \"quantise_us\": %.3f, \"gemm_us\": "
                 "%.3f, \"us\": %.3f, \"cublas_f16_us\": %.3f, \"cublaslt_int8_us\": %.3f, \"roofline_us\": %.3f, "
                 "\"bar_us\": %.3f, \"met\": %s}%s\n",
                 p.shape->name, (long long)p.shape->k, (long long)p.shape->n, (long long)p.m, p.quantise_us, p.gemm_us,
                 p.both_us, p.cublas_us, p.lt_us, p.floor_us, p.bar_us(), p.both_us <= p.bar_us() ? "true" : "false",
                 i + 1 < points.size() ? "," : "");
  }
  std::fprintf(f, " ]}\n");
}

machine open_machine()
{
  machine on = {};
  yk_err err = YK_ERR_INIT;
  bench::check(yk_wna16_gpu_init(&on.gpu, YK_WNA16_AUTO, &err), err);
  bench::check(yk_w8a8_init(&on.gpu, &err), err);
  CUDA_OK(cudaStreamCreateWithFlags(&on.stream, cudaStreamNonBlocking));
  bench::check(cublasCreate(&on.blas), "cuBLAS");
  bench::check(cublasLtCreate(&on.lt), "cuBLASLt");
  on.workspace = std::make_unique<array<char>>(yk_w8a8_workspace_bytes(&on.gpu) + 1);
  on.blas_workspace = std::make_unique<array<char>>(WORKSPACE_BYTES);
  bench::check(cublasSetStream(on.blas, on.stream), "cuBLAS");
  bench::check(cublasSetWorkspace(on.blas, on.blas_workspace->data, WORKSPACE_BYTES), "cuBLAS");
  return on;
}

yk_status parse_rows(void *user, const char *text, yk_err *err)
{
  std::vector<int32_t> &ms = *static_cast<std::vector<int32_t> *>(user);
  YK_TRY(bench::parse_numbers(text, ms, err));
  for (int32_t m : ms)
    if (m < 1 || m > 1 << 16) return yk_err_set(err, YK_E_INVAL, "expected 1 to %d rows, found %d", 1 << 16, m);
  return YK_OK;
}

} // namespace

int main(int argc, char **argv)
{
  bench::report_options report;
  std::vector<int32_t> ms = {1, 16, 64, 256, 1024, 4096};
  std::vector<yk_option> options;
  options.push_back({.name = "m",
                     .kind = YK_OPTION_CALL,
                     .value = &ms,
                     .metavar = "LIST",
                     .help = "rows of x",
                     .fallback = "1,16,64,256,1024,4096",
                     .parse = parse_rows});
  bench::add_options(options, report);
  bench::parse_options("bench_w8a8", "Times the GEMM of 8-bit weights with 8-bit activations.",
                       "  bench_w8a8 --m 1,4096 --json w8a8.json\n", options, argc, argv);
  FILE *json = bench::open_figures(report);
  const machine on = open_machine();
  double limit_tops = 0;
  std::vector<point> points;
  std::printf("microseconds    k x n         m  quantise     GEMM     both    cuBLAS cuBLASLt     floor      bar      "
              "f16/both\n");
  for (const gemm_shape &s : SHAPES) {
    for (int32_t m : ms) check_sums(on, s, std::min(m, 300));
    const layer l(on, s, s.gate_up);
    if (limit_tops == 0) {
      const rows r(on, s, LIMIT_M);
      quantise(on, r, LIMIT_M, s.k);
      limit_tops = 2e-6 * LIMIT_M * double(s.k) * double(s.n) / lt_us(on, l, r, LIMIT_M, 8);
    }
    for (int32_t m : ms) {
      points.push_back(time_point(on, s, l, m, limit_tops));
      print_point(points.back());
    }
  }
  std::printf("cuBLASLt int8, %d x 4096 x 24576: %.0f TOPS\n", LIMIT_M, limit_tops);
  if (json) write_json(json, report, limit_tops, points);
  bench::close_figures(report, json);
  return 0;
}
