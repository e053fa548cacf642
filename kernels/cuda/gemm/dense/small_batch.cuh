/* small_batch.cuh - host side of the WNA16 GEMM of up to 32 tokens on 9.0: its plans and their launch. It needs no
 * workspace. */
#ifndef YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_CUH
#define YK_KERNELS_CUDA_GEMM_DENSE_SMALL_BATCH_CUH

#include <vector>

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/dense/costs.h"

namespace yk_gemm {

/* Appends the plans that can run m tokens, 1 to 32. There is always one. Host arithmetic, as small_batch_us. */
void small_batch_plans(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, std::vector<yk_gemm_plan> &plans);

/* Estimated microseconds of a plan of small_batch_plans. */
double small_batch_us(const small_batch_costs &costs, const yk_gemm_gpu &gpu, const yk_gemm_desc &desc,
                      yk_gemm_plan plan);

/* Launch parameters of a plan. */
struct small_batch_launch {
  int64_t cluster, clusters; /* thread blocks of a cluster; clusters of the grid */
  int tile_panels;           /* panels of a thread block's output tile */
  int k_slices, stages;
  int shared_bytes, threads; /* per thread block; shared_bytes: dynamic */
};

/* stages is 0 if the plan does not fit. It is the same in either half of a multiprocessor. m matters only with fusion
 * NORM. */
small_batch_launch small_batch_lay_out(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                                       bool second_half, fusion f = fusion::NONE, int64_t m = 0);

struct small_batch_params;

/* Fills in the kernel's parameters, except those of fusions and next_reads_x. */
void small_batch_fill(const yk_gemm_desc &desc, yk_gemm_plan plan, const yk_gemm_call &call,
                      const small_batch_launch &l, small_batch_params &p);

/* The kernels of tile number `tile` of SMALL_BATCH_SHAPES; for a fusion only tiles of 8 tokens have any. Defined in
 * small_batch_instances.cuh. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE, yk_dtype RESULT>
const tile_kernels &small_batch_kernels(fusion f, int tile);

/* yk_gemm_takes_norm, yk_gemm_takes_sum with a plan of small_batch_plans: f is NORM or SUM. */
bool small_batch_fuses(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan, fusion f, int64_t m);

/* Loads all kernels and allows them their dynamic shared memory, on the current device. */
cudaError_t small_batch_init();

/* yk_gemm_forward with a plan of small_batch_plans; arguments have been checked. */
cudaError_t small_batch_forward(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, yk_gemm_plan plan,
                                const yk_gemm_call &call, cudaStream_t stream);

} // namespace yk_gemm

#endif
