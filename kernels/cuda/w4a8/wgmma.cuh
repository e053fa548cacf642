/* wgmma.cuh - plans of the W4A8 GEMM, and its compiled kernels. Plans are host arithmetic, for any thread. */
#ifndef YK_KERNELS_CUDA_W4A8_WGMMA_CUH
#define YK_KERNELS_CUDA_W4A8_WGMMA_CUH

#include <cuda_fp8.h>

#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/w4a8/tiles.h"

namespace yk_w4a8 {

/* The output tiles of clusters, and their division among clusters, as yk_gemm::schedule_tiles takes it. */
struct tile_split {
  int64_t tiles_m, tiles_n, fit; /* fit: clusters that run at once */
  int64_t split_tiles, k_ranges, clusters;
};

/* With at least as many tiles as clusters that fit, all are whole; with stream-K, the remainder and one wave of tiles
 * have one K range for each cluster. With fewer tiles each is split into equal ranges, or all into one for each
 * cluster. */
tile_split split_of(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, gemm_plan plan);

/* Whether a plan exists: all K ranges run at once, and none is empty, since peers wait for the sums of each. */
bool can_split(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m, gemm_plan plan);

/* The plan with the lowest estimate. No tile is considered that is larger than one that holds all tokens. */
gemm_plan best_plan(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int64_t m);

/* The kernels of tile number `tile` of TILES. CODE: int8_t or __nv_fp8_e4m3. Defined in wgmma_instances.cuh. */
template <yk_dtype DTYPE, typename CODE> const yk_gemm::tile_kernels &wgmma_kernels(int tile);

} // namespace yk_w4a8

#endif
