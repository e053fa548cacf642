/* linear_plans.cuh - compares plans of the GEMM with 16-bit activations, for bench_linear: the fastest plan at each
 * point (shape and number of tokens), the benefit of each tile, and the fit of the constants that choose plans. */
#ifndef YK_BENCH_LINEAR_PLANS_CUH
#define YK_BENCH_LINEAR_PLANS_CUH

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "bench/check.cuh"
#include "kernels/cuda/gemm/dense/dense.h"
#include "kernels/cuda/gemm/dense/plan.h"

namespace linear {

constexpr double NOT_TIMED = 2.0; /* multiple of the best time that stands for a plan that was not timed */

/* A plan's time at one point; 0 if its estimate was too bad to be timed. */
struct timed_plan {
  yk_gemm_plan plan;
  double us;
};

struct plan_point {
  std::string shape;
  yk_gemm_desc desc;
  int64_t m;
  std::vector<timed_plan> plans;

  double best_us(const std::set<std::string> &without = {}) const
  {
    double best = 0;
    for (const timed_plan &t : plans)
      if (t.us > 0 && (best == 0 || t.us < best) && !without.count(yk_gemm::tile_name(t.plan))) best = t.us;
    return best;
  }
};

/* ---- The file of times ------------------------------------------------------------------------------------------- */

constexpr const char *PLANS_HEADER = "dtype group shape k n gate_up m plan us";

inline void print_plans_header(const yk_gemm_gpu &gpu, const char *commit)
{
  std::printf("# bench_linear --plans, commit %s, multiprocessors %d, clusters", commit, gpu.n_multiprocessors);
  for (int size = 2; size <= YK_GEMM_MOST_PEERS; size++) std::printf(" %d", gpu.clusters[size]);
  std::printf("\n# %s\n", PLANS_HEADER);
}

inline void print_point(const plan_point &p)
{
  for (const timed_plan &t : p.plans)
    std::printf("%s %lld %s %lld %lld %d %lld %s %.3f\n", yk_dtype_name(p.desc.dtype), (long long)p.desc.group,
                p.shape.c_str(), (long long)p.desc.k, (long long)p.desc.n, p.desc.activation.is_gated, (long long)p.m,
                yk_gemm::plan_name(t.plan).c_str(), t.us);
  std::fflush(stdout);
}

[[noreturn]] inline void refuse_line(const char *path, int line, const std::string &text)
{
  yk_err err = YK_ERR_INIT;
  yk_err_set(&err, YK_E_INVAL, "%s:%d: expected \"%s\", found \"%s\"", path, line, PLANS_HEADER, text.c_str());
  bench::give_up(err);
}

/* The GPU in the line of print_plans_header. Older files name no clusters. */
inline void read_plans_header(const std::string &line, yk_gemm_gpu *gpu)
{
  const auto behind = [&](const char *name) {
    const size_t at = line.find(name);
    return at == std::string::npos ? std::string() : line.substr(at + std::strlen(name));
  };
  std::istringstream(behind("multiprocessors ")) >> gpu->n_multiprocessors;
  std::istringstream clusters(behind("clusters "));
  for (int size = 2; size <= YK_GEMM_MOST_PEERS; size++) clusters >> gpu->clusters[size];
}

/* Times from lines of print_point, and the GPU. Omits plans that are no longer compiled. */
inline std::vector<plan_point> read_points(const char *path, yk_gemm_encoding encoding, yk_gemm_gpu *gpu)
{
  std::ifstream file(path);
  yk_err err = YK_ERR_INIT;
  if (!file) {
    yk_err_set(&err, YK_E_IO, "%s: %s", path, std::strerror(errno));
    bench::give_up(err);
  }
  std::vector<plan_point> points;
  std::string line, dtype, shape, plan;
  *gpu = {};
  gpu->path = YK_GEMM_WGMMA;
  for (int number = 1; std::getline(file, line); number++) {
    if (line.rfind("#", 0) == 0) {
      if (line.find("multiprocessors ") != std::string::npos) read_plans_header(line, gpu);
      continue;
    }
    plan_point p = {};
    double us;
    bool is_gated = false;
    std::istringstream words(line);
    if (!(words >> dtype >> p.desc.group >> p.shape >> p.desc.k >> p.desc.n >> is_gated >> p.m >> plan >> us) ||
        gpu->n_multiprocessors <= 0)
      refuse_line(path, number, line);
    p.desc.encoding = encoding;
    p.desc.activation = bench::silu_where(is_gated);
    p.desc.dtype = dtype == yk_dtype_name(YK_F16) ? YK_F16 : YK_BF16;
    const plan_point *last = points.empty() ? nullptr : &points.back();
    if (!last || last->shape != p.shape || last->m != p.m || last->desc.dtype != p.desc.dtype) {
      bench::check(yk_gemm_desc_check(&p.desc, &err), err);
      for (yk_gemm_plan known : yk_gemm::plans_of(*gpu, p.desc, p.m)) p.plans.push_back({known, 0.0});
      points.push_back(p);
    }
    for (timed_plan &t : points.back().plans)
      if (yk_gemm::plan_name(t.plan) == plan) t.us = us;
  }
  if (points.empty()) {
    yk_err_set(&err, YK_E_INVAL, "%s: expected lines \"%s\", found none", path, PLANS_HEADER);
    bench::give_up(err);
  }
  return points;
}

/* ---- The benefit of a tile --------------------------------------------------------------------------------------- */

/* The slowdown of the best plan of a point without some tiles: the largest over the points, and its point. */
struct slowdown {
  double largest = 0;
  std::string where;
  int points = 0; /* points with a slowdown of 2 % or more */
};

inline slowdown slowdown_without(const std::vector<plan_point> &points, const std::set<std::string> &without)
{
  slowdown s;
  for (const plan_point &p : points) {
    const double all = p.best_us(), left = p.best_us(without);
    const double slower = left == 0 ? NOT_TIMED - 1 : left / all - 1;
    if (slower >= 0.02) s.points++;
    if (slower <= s.largest) continue;
    s.largest = slower;
    s.where = p.shape + " at " + std::to_string(p.m);
  }
  return s;
}

/* Prints, for each tile, the number of points where it is best and the cost of removing it. Then removes tiles, the
 * cheapest first, while no point becomes 2 % slower than with all tiles. */
inline void print_worth(const std::vector<plan_point> &points)
{
  std::map<std::string, int> wins;
  for (const plan_point &p : points) {
    for (const timed_plan &t : p.plans) {
      const std::string name = yk_gemm::tile_name(t.plan);
      wins[name] += t.us > 0 && t.us == p.best_us();
    }
  }
  std::printf("# tile, points where it is best, slowdown without it, where, points of 2 %% and more\n");
  for (const auto &[name, n] : wins) {
    const slowdown s = slowdown_without(points, {name});
    std::printf("# %-36s %4d %7.1f %%  %-16s %d\n", name.c_str(), n, 100 * s.largest, s.where.c_str(), s.points);
  }
  std::set<std::string> out;
  for (;;) {
    std::string cheapest;
    slowdown least;
    for (const auto &[name, n] : wins) {
      if (out.count(name)) continue;
      std::set<std::string> without = out;
      without.insert(name);
      const slowdown s = slowdown_without(points, without);
      if (!cheapest.empty() && s.largest >= least.largest) continue;
      cheapest = name;
      least = s;
    }
    if (cheapest.empty() || least.largest >= 0.02) break;
    out.insert(cheapest);
    std::printf("# may go: %s (no point more than %.1f %% slower than with all tiles)\n", cheapest.c_str(),
                100 * least.largest);
  }
}

/* ---- The fit ----------------------------------------------------------------------------------------------------- */

/* Time of the plan that the constants choose at a point. */
inline double chosen_us(const plan_point &p, const yk_gemm_gpu &gpu, const yk_gemm::gemm_costs &costs)
{
  const timed_plan *chosen = nullptr;
  double least = 0;
  for (const timed_plan &t : p.plans) {
    const double us = yk_gemm::plan_us(costs, gpu, p.desc, p.m, t.plan);
    if (chosen && us >= least) continue;
    chosen = &t;
    least = us;
  }
  return chosen->us > 0 ? chosen->us : NOT_TIMED * p.best_us();
}

struct fit_result {
  double excess = 0; /* mean slowdown of the chosen plans against the best ones, over the points */
  double worst = 0;  /* largest slowdown of a point against its limit, the plan of the present constants */
};

inline fit_result judge(const std::vector<plan_point> &points, const std::vector<double> &limits,
                        const yk_gemm_gpu &gpu, const yk_gemm::gemm_costs &costs)
{
  fit_result r;
  for (size_t i = 0; i < points.size(); i++) {
    const double us = chosen_us(points[i], gpu, costs);
    r.excess += (us / points[i].best_us() - 1) / static_cast<double>(points.size());
    r.worst = std::max(r.worst, us / limits[i] - 1);
  }
  return r;
}

inline void print_cost(const char *field, double value)
{
  std::printf("COST(%s, %.3g)\n", field, value);
}

inline void print_costs_of_tiles(const char *field, const double *values, int n)
{
  std::printf("COSTS(%s", field);
  for (int i = 0; i < n; i++) std::printf(", %.3g", values[i]);
  std::printf(")\n");
}

/* In the form of the data files of gemm/dense/costs. */
inline void print_costs(const yk_gemm::gemm_costs &c)
{
#define PRINT(field) print_cost(#field, c.field)
  PRINT(small_batch.panel_us);
  PRINT(small_batch.token_us);
  PRINT(small_batch.alone_us);
  PRINT(small_batch.tile_end_us);
  PRINT(small_batch.k_slice_us);
  PRINT(small_batch.panel_token_us);
  PRINT(small_batch.exchange_us);
  print_costs_of_tiles("small_batch.k_tile_us", c.small_batch.k_tile_us, yk_gemm::N_SMALL_BATCH_SHAPES);
  PRINT(wgmma.start_us);
  PRINT(wgmma.small_start_us);
  PRINT(wgmma.cluster_start_us);
  PRINT(wgmma.tile_end_byte_us);
  PRINT(wgmma.peer_us);
  PRINT(wgmma.split_k_us);
  PRINT(wgmma.split_k_byte_us);
  PRINT(wgmma.cluster_peer_us);
  PRINT(wgmma.cluster_byte_us);
  PRINT(wgmma.stream_k_us);
  PRINT(wgmma.stream_k_byte_us);
  PRINT(wgmma.stream_k_peer_byte_us);
  print_costs_of_tiles("wgmma.k_tile_us", c.wgmma.k_tile_us, yk_gemm::N_WGMMA_SHAPES);
#undef PRINT
}

/* Random search from the costs of gemm/dense/costs.h, such that no point gets 2 % slower than with these. The objective
 * is the excess of the constants and of copies perturbed by 1 % each, so that a choice does not depend on the last
 * digit. */
inline void fit_costs(const std::vector<plan_point> &points, const yk_gemm_gpu &gpu, int steps, uint64_t seed)
{
  constexpr int SHAKES = 2;
  constexpr double SLOWER = 0.02;
  constexpr size_t COUNT = sizeof(yk_gemm::gemm_costs) / sizeof(double);
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  auto shaken = [&](const yk_gemm::gemm_costs &costs, double by, double share) {
    double values[COUNT];
    std::memcpy(values, &costs, sizeof values);
    for (double &v : values)
      if (static_cast<double>(random() >> 11) * 0x1p-53 < share) v *= std::exp(by * normal(random));
    yk_gemm::gemm_costs out;
    std::memcpy(&out, values, sizeof values);
    return out;
  };
  std::vector<double> limits;
  yk_gemm::gemm_costs best = yk_gemm::costs_of(gpu, points[0].desc.encoding);
  for (const plan_point &p : points) limits.push_back(chosen_us(p, gpu, best));
  auto cost = [&](const yk_gemm::gemm_costs &costs) {
    const fit_result r = judge(points, limits, gpu, costs);
    if (r.worst > SLOWER) return 1.0 + r.worst;
    double sum = 2 * r.excess;
    for (int i = 0; i < SHAKES; i++) sum += judge(points, limits, gpu, shaken(costs, 0.01, 1.0)).excess;
    return sum / (2 + SHAKES);
  };
  double least = cost(best);
  std::printf("# %zu points; chosen plans are slower than the best by %.2f %% on average\n", points.size(),
              100 * judge(points, limits, gpu, best).excess);
  for (int i = 0; i < steps; i++) {
    const yk_gemm::gemm_costs next = shaken(best, i % 3 ? 0.05 : 0.3, i % 2 ? 0.05 : 0.2);
    const double found = cost(next);
    if (found >= least) continue;
    best = next;
    least = found;
  }
  const fit_result r = judge(points, limits, gpu, best);
  std::printf("# fitted: %.2f %%; no point slower than before by more than %.1f %%\n", 100 * r.excess, 100 * r.worst);
  print_costs(best);
}

} // namespace linear

#endif
