/* plan.cu - see plan.h. Plans and estimates of each kernel are in its own host file: small_batch.cu,
 * wgmma.cu. */
#include "kernels/cuda/gemm/dense/plan.h"

#include <algorithm>

#include "kernels/cuda/gemm/dense/small_batch.cuh"
#include "kernels/cuda/gemm/dense/wgmma.cuh"

namespace yk_gemm {

std::vector<yk_gemm_plan> plans_of(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  std::vector<yk_gemm_plan> plans;
  if (m <= SMALL_BATCH_TOKENS) small_batch_plans(gpu, desc, m, plans);
  if (m > UNROUNDED_TOKENS) wgmma_plans(gpu, desc, m, plans);
  return plans;
}

double plan_us(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, yk_gemm_plan plan)
{
  if (plan.kernel == PLAN_SMALL_BATCH) return small_batch_us(costs.small_batch, gpu, desc, plan);
  return wgmma_us(costs.wgmma, gpu, desc, m, plan);
}

static yk_gemm_plan best_of(const std::vector<yk_gemm_plan> &plans, const gemm_costs &costs, const yk_gemm_gpu &gpu,
                            const yk_gemm_desc &desc, int64_t m)
{
  yk_gemm_plan best = {};
  double best_us = 0.0;
  bool any = false;
  for (yk_gemm_plan plan : plans) {
    double us = plan_us(costs, gpu, desc, m, plan);
    if (any && us >= best_us) continue;
    best = plan;
    best_us = us;
    any = true;
  }
  return best;
}

yk_gemm_plan best_plan(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  return best_of(plans_of(gpu, desc, m), costs, gpu, desc, m);
}

static bool takes_all(yk_gemm_plan plan)
{
  const bool is_small = plan.kernel == PLAN_SMALL_BATCH;
  return (is_small ? SMALL_BATCH_SHAPES[plan.tile].taken : WGMMA_SHAPES[plan.tile].taken) != occupancy::HALF;
}

yk_gemm_plan best_half_plan(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m)
{
  std::vector<yk_gemm_plan> plans = plans_of(gpu, desc, m);
  plans.erase(std::remove_if(plans.begin(), plans.end(), takes_all), plans.end());
  return plans.empty() ? best_plan(costs, gpu, desc, m) : best_of(plans, costs, gpu, desc, m);
}

std::string tile_name(yk_gemm_plan plan)
{
  if (plan.kernel == PLAN_SMALL_BATCH) {
    const small_batch_shape &s = SMALL_BATCH_SHAPES[plan.tile];
    return "small_batch:n" + std::to_string(s.n) + ",panels" + std::to_string(s.panels) +
           (s.taken == occupancy::HALF ? ",half" : ",most");
  }
  const wgmma_shape &s = WGMMA_SHAPES[plan.tile];
  return "wgmma:m" + std::to_string(s.m()) + ",n" + std::to_string(s.n) + ",cluster" + std::to_string(s.cluster) +
         (s.n <= 64 && s.taken == occupancy::ALL ? ",all" : "");
}

std::string plan_name(yk_gemm_plan plan)
{
  if (plan.kernel == PLAN_SMALL_BATCH)
    return tile_name(plan) + ":slice" + std::to_string(plan.slice_warps) + ",cluster" + std::to_string(plan.splits);
  return tile_name(plan) + (plan.splits == 0 ? ":stream_k" : ":split_k" + std::to_string(plan.splits)) +
         (plan.kernel == PLAN_WGMMA_CLUSTER ? ",in_cluster" : "");
}

/* Buckets of 8 tokens up to 32, of 16 up to 256, of 64 up to 1024, of 256 up to 8192, and one bucket for all larger
 * counts. */
struct bucket_series {
  int64_t first, rows; /* largest count before the series, rows of each bucket */
  int buckets;
};
constexpr bucket_series SERIES[] = {{0, 8, 4}, {32, 16, 14}, {256, 64, 12}, {1024, 256, 28}, {8192, 8192, 1}};

constexpr int n_buckets()
{
  int n = 0;
  for (const bucket_series &s : SERIES) n += s.buckets;
  return n;
}
static_assert(n_buckets() == YK_GEMM_ROW_BUCKETS, "a plan for each bucket");

int row_bucket(int64_t m)
{
  int before = 0;
  for (const bucket_series &s : SERIES) {
    if (m <= s.first + s.rows * s.buckets) return before + static_cast<int>((m - s.first - 1) / s.rows);
    before += s.buckets;
  }
  return before - 1;
}

int64_t bucket_rows(int bucket)
{
  for (const bucket_series &s : SERIES) {
    if (bucket < s.buckets) return s.first + s.rows * (bucket + 1);
    bucket -= s.buckets;
  }
  return 0;
}

} // namespace yk_gemm
