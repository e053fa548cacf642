/* w4a16_grouped_params.cuh - what the kernels of grouped GEMMs are given. */
#ifndef YK_KERNELS_CUDA_GEMM_W4A16_GROUPED_PARAMS_CUH
#define YK_KERNELS_CUDA_GEMM_W4A16_GROUPED_PARAMS_CUH

#include "kernels/cuda/gemm/divider.cuh"
#include "kernels/cuda/gemm/w4a16_grouped_table.cuh"
#include "kernels/cuda/gemm/w4a16_grouped_types.h"
#include "kernels/cuda/gemm/wna16_common.cuh"

namespace yk_gemm {

/* Both kernels for 9.0 take groups of 128 and more. */
using grouped_panel = panel_layout<YK_WNA16_INT4, 1>;

struct grouped_params {
  yk_grouped_call call;
  int k, n, k_tiles, n_panels;
  bool gate_up;
  int slice_warps, stage_panels, stages; /* few rows */
  int ring_bytes;
  int x_stages, weight_stages; /* wgmma */
  int tiles_m;                 /* wgmma: output tiles along columns */
  int max_tiles;               /* wgmma: row tiles at most */
  yk_cuda::divider by_panels;  /* few rows */
  yk_cuda::divider by_tiles_m; /* wgmma */

  __device__ __forceinline__ const uint8_t *weights_of(int matrix) const
  {
    return static_cast<const uint8_t *>(call.weights) + matrix * call.matrix_bytes;
  }
  __device__ __forceinline__ const void *bias_of(int matrix) const
  {
    return call.bias ? static_cast<const uint8_t *>(call.bias) + matrix * call.matrix_bytes : nullptr;
  }
  __device__ __forceinline__ int row_of(int slot) const
  {
    if (call.n_rows == 1) return 0;
    return call.row_of_slot ? __ldcg(call.row_of_slot + slot) : slot;
  }
  /* The results of a slot: columns of y are those of W, or half of them. */
  __device__ __forceinline__ void *y_of(int slot) const
  {
    return static_cast<uint16_t *>(call.y) + static_cast<int64_t>(slot) * (gate_up ? n / 2 : n);
  }
};

/* By all threads, before the table is built. The next kernel may start once this one has waited, so that whoever finds
 * the starts settled there reads what was complete before this kernel. */
__device__ __forceinline__ void wait_for_starts(const grouped_params &p)
{
  if (p.call.starts_are_settled) return;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) let_next_kernel_start();
}

/* By consumers, and at the start of everything that reads x or writes y. */
__device__ __forceinline__ void wait_in_grouped(const grouped_params &p)
{
  if (!p.call.starts_are_settled) return;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) let_next_kernel_start();
}

/* In the source of each type, for the sake of building. tile: of the host's table of each family. */
const void *grouped_few_kernel_f16(int tile);
const void *grouped_few_kernel_bf16(int tile);
const void *grouped_wgmma_kernel_f16(int tile);
const void *grouped_wgmma_kernel_bf16(int tile);

cudaError_t grouped_sm80_init();
cudaError_t grouped_sm80_forward(const yk_wna16_desc &desc, bool is_packed, const yk_grouped_call &call,
                                 cudaStream_t stream);

} // namespace yk_gemm

#endif
