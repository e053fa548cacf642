/* plan.h - plans of the WNA16 GEMM on compute capability 9.0: the plans for a shape, their estimated times, and the
 * choice among them. Host arithmetic that calls no CUDA function; any thread may call it. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_PLAN_H
#define YK_KERNELS_CUDA_GEMM_DENSE_PLAN_H

#include <string>
#include <vector>

#include "kernels/cuda/gemm/dense/costs.h"
#include "kernels/cuda/gemm/types.h"

namespace yk_gemm {

/* Numerics: the small-batch kernel does not round its dequantised weights, the wgmma kernel does. Up to
 * UNROUNDED_TOKENS only plans of the small-batch kernel are considered, so that results of small decode batches differ
 * only by the order of additions. */
constexpr int UNROUNDED_TOKENS = 16;
constexpr int SMALL_BATCH_TOKENS = 32; /* maximum of the small-batch kernel: its largest tile N */

/* All plans that can run m tokens, 1 or more; at least one. desc must be valid, gpu on the WGMMA path. */
std::vector<yk_gemm_plan> plans_of(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m);

/* Estimated microseconds of a plan of plans_of. */
double plan_us(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, yk_gemm_plan plan);

/* The plan with the lowest estimate; among equal ones the first of plans_of. */
yk_gemm_plan best_plan(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m);

/* The same among plans that leave half of each multiprocessor to the next kernel; among all if there is none. */
yk_gemm_plan best_half_plan(const gemm_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m);

/* Names such as "wgmma:m128,n64" and "wgmma:m128,n64:split_k3", without spaces. */
std::string tile_name(yk_gemm_plan plan);
std::string plan_name(yk_gemm_plan plan);

/* Buckets of row counts: every count of a bucket has the plan of the bucket's largest count. Up to 256 tokens the
 * estimates depend only on the number of tiles of 8 and 16 tokens, so there the plan of a count is that of its
 * bucket. */
int row_bucket(int64_t m);
int64_t bucket_rows(int bucket); /* the largest count of a bucket */

} // namespace yk_gemm

#endif
