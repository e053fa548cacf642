/* linear_check.cuh - odd shapes, groups and parts of GEMMs against float64, each twice, for bench_linear. */
#ifndef YK_BENCH_LINEAR_CHECK_CUH
#define YK_BENCH_LINEAR_CHECK_CUH

#include "bench/gemm_paths.cuh"
#include "bench/linear_gemm.cuh"

namespace linear {

struct check_case {
  int64_t k, n, group, source_group, k0, extra_columns;
  bool gate_up, parts;
};

const check_case CHECK_CASES[] = {
    {128, 64, 128, 128, 0, 0, false, false},       {32, 8, 32, 32, 0, 0, false, false},
    {4096, 6144, 128, 128, 0, 0, false, true},     {4096, 1536, 64, 64, 0, 512, false, true},
    {1408, 4096, 128, 128, 1408, 0, false, false}, {96, 72, 32, 128, 32, 24, false, true},
    {4096, 2176, 128, 128, 0, 0, false, true},     {2400, 1000, 32, 32, 0, 0, false, false},
    {992, 2056, 32, 128, 4064, 0, false, false},   {1024, 24576, 128, 128, 0, 0, true, false},
    {4096, 8192, 128, 128, 0, 0, true, true},      {672, 1376, 32, 64, 288, 40, true, true},
    {160, 48, 160, 160, 0, 0, true, true},         {4096, 520, 4096, 4096, 0, 8, false, true},
    {12288, 4096, 128, 128, 0, 0, false, false},   {3072, 4096, 64, 128, 3136, 0, false, false},
    {2048, 4096, 256, 256, 0, 0, false, false},    {2464, 352, 32, 32, 0, 0, true, false},
    {1024, 6144, 32, 32, 0, 0, false, false},      {1024, 24576, 64, 64, 0, 0, true, false},
    {1024, 24576, 32, 32, 0, 0, true, false},      {4000, 512, 128, 128, 0, 0, false, false},
    {2464, 352, 16, 16, 0, 0, true, false},        {1024, 6144, 16, 48, 96, 8, false, true},
};

inline std::vector<part> parts_of(const check_case &c)
{
  int64_t half = c.n / 2 / 8 * 8;
  if (!c.parts) return {{0, c.n, 0}};
  /* Two parts whose positions in the source are swapped and shifted, so that no column maps to itself. */
  int64_t shift = c.extra_columns;
  return {{0, half, shift + c.n - half}, {half, c.n - half, shift}};
}

/* On a GPU with so few multiprocessors, each thread block of the GEMM for few tokens has several output tiles.
 * Otherwise this occurs only in models of 70B. */
constexpr int FEW_MULTIPROCESSORS = 10;
constexpr int64_t FEW_TOKENS = 32;

/* Results of GEMM checks. */
struct check_totals {
  int checked = 0, failed = 0;
  double worst[2] = {}; /* normalised errors in float16, bfloat16 */

  void add(yk_dtype dtype, double error)
  {
    double &most = worst[dtype == YK_BF16];
    most = std::max(most, error);
    checked++;
  }
  void print() const
  {
    std::printf("%d GEMMs checked, %d failed; largest normalised error %.2e float16, %.2e bfloat16\n", checked, failed,
                worst[0], worst[1]);
  }
};

/* Checks GEMMs of the given numbers of tokens and of some numbers between, on one path or on both. Prints failures and
 * a summary. Returns whether any check failed. */
inline bool run_checks(yk_gemm_encoding encoding, yk_gemm_path only, const std::vector<int64_t> &tokens, uint64_t seed)
{
  check_totals totals;
  bench::for_each_path(only, [&](const yk_gemm_gpu &gpu, yk_gemm_path path) {
    for (const check_case &c : CHECK_CASES) {
      if (c.group < c.k && c.group % YK_GEMM_GROUP_UNIT(encoding) != 0) continue;
      for (yk_dtype dtype : {YK_F16, YK_BF16}) {
        const yk_gemm_desc d = {c.k, c.n, c.group, dtype, bench::silu_where(c.gate_up), encoding};
        yk_dtype scales = (seed / 16) % 3 == 0 ? YK_BF16 : YK_F16;
        std::vector<int64_t> ms = tokens;
        for (int64_t m : {3, 17, 25, 33, 65, 100, 130, 200, 257, 300, 1000}) ms.push_back(m);
        int64_t most = *std::max_element(ms.begin(), ms.end());
        gemm_case p(gpu, d, c.k0, c.n + c.extra_columns, c.source_group, scales, seed / 16 % 2 == 0, parts_of(c), most,
                    seed += 16);
        yk_gemm_gpu few = gpu;
        few.n_multiprocessors = FEW_MULTIPROCESSORS;
        std::vector<std::pair<yk_gemm_gpu, int64_t>> points;
        for (int64_t m : ms) {
          points.push_back({gpu, m});
          if (m <= FEW_TOKENS) points.push_back({few, m});
        }
        for (const auto &[on, m] : points) {
          bool bias = m % 2 == 0;
          errors e = compare(on, p, m, bias, false);
          std::vector<uint16_t> first(m * p.width()), second(m * p.width());
          check(cudaMemcpy(first.data(), p.y.data, first.size() * 2, cudaMemcpyDeviceToHost), "results");
          compare(on, p, m, bias, true);
          check(cudaMemcpy(second.data(), p.y.data, second.size() * 2, cudaMemcpyDeviceToHost), "results");
          bool same = first == second,
               good = e.bad == 0 && e.normalised < tolerance(dtype, c.gate_up, m * p.width()) && same;
          totals.add(dtype, e.normalised);
          if (good) continue;
          totals.failed++;
          std::printf("FAIL %s on %d k %lld n %lld group %lld/%lld k0 %lld gate_up %d %s m %lld: error %.2e, %lld not "
                      "finite, %s\n",
                      path == YK_GEMM_MMA ? "mma" : "wgmma", on.n_multiprocessors, (long long)c.k, (long long)c.n,
                      (long long)c.group, (long long)c.source_group, (long long)c.k0, c.gate_up, yk_dtype_name(dtype),
                      (long long)m, e.normalised, (long long)e.bad, same ? "repeats" : "CHANGES");
        }
      }
    }
  });
  totals.print();
  return totals.failed != 0;
}

} // namespace linear

#endif
