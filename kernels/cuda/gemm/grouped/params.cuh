/* params.cuh - parameters of the kernels of grouped GEMMs. */
#ifndef YK_KERNELS_CUDA_GEMM_GROUPED_PARAMS_CUH
#define YK_KERNELS_CUDA_GEMM_GROUPED_PARAMS_CUH

#include "kernels/cuda/common/division.cuh"
#include "kernels/cuda/gemm/common.cuh"
#include "kernels/cuda/gemm/grouped/row_tile_table.cuh"
#include "kernels/cuda/gemm/grouped/types.h"
#include "kernels/cuda/gemm/occupancy.cuh"
#include "kernels/cuda/gemm/stage_producers.cuh"

namespace yk_gemm {

/* The GEMM of the shared expert's weight in a call of this GEMM. */
inline yk_gemm_desc desc_of_shared_expert(const yk_gemm_desc &desc, const yk_grouped_shared_expert &shared_expert)
{
  yk_gemm_desc own = desc;
  own.k = shared_expert.k;
  own.n = shared_expert.n;
  return own;
}

/* The weights and results of an output tile: those of a matrix, or of the shared expert. */
struct grouped_operands {
  const uint8_t *weights;
  const float *row_scales; /* if the encoding has them */
  const void *bias, *x;
  void *y;
  int k, k_tiles, n, n_panels;
};

struct grouped_params {
  yk_grouped_call call;
  int k, n, k_tiles, n_panels;
  int64_t row_scales_at; /* offset of the row scales, in bytes from a matrix's first panel */
  yk_activation activation;
  int slice_warps, stage_panels, stages; /* few rows */
  int ring_bytes;
  int x_stages, weight_stages; /* wgmma */
  int tiles_m;                 /* wgmma: output tiles along columns */
  int n_dealt;    /* wgmma: matrices whose first row tile is statically assigned: each of its output tiles to a block */
  int max_tiles;  /* wgmma: maximum number of row tiles */
  int tile_items; /* few rows: items of a row tile */
  yk_cuda::divider by_panels; /* few rows: for blocks with shares */
  yk_cuda::divider by_tile_items;
  yk_cuda::divider by_tiles_m;                     /* wgmma */
  int shared_expert_k_tiles, shared_expert_panels; /* sizes of the shared expert's weight; 0 without one */
  int64_t shared_expert_row_scales_at;             /* as row_scales_at */
  int shared_expert_parts; /* wgmma: its columns are cut into parts, each with as many output tiles as a matrix */

  __device__ __forceinline__ const uint8_t *weights_of(int matrix) const
  {
    return static_cast<const uint8_t *>(call.weights) + matrix * call.matrix_bytes;
  }
  __device__ __forceinline__ const float *row_scales_of(int matrix) const
  {
    return reinterpret_cast<const float *>(weights_of(matrix) + row_scales_at);
  }
  __device__ __forceinline__ const void *bias_of(int matrix) const
  {
    return call.bias ? static_cast<const uint8_t *>(call.bias) + matrix * call.matrix_bytes : nullptr;
  }
  /* The shared expert's weight has the number after the matrices'. */
  __device__ __forceinline__ grouped_operands operands_of(int matrix) const
  {
    if (matrix < call.n_matrices)
      return {weights_of(matrix), row_scales_of(matrix), bias_of(matrix), call.x, call.y, k, k_tiles, n, n_panels};
    const yk_grouped_shared_expert &b = call.shared_expert;
    const uint8_t *weights = static_cast<const uint8_t *>(b.weights);
    return {weights,
            reinterpret_cast<const float *>(weights + shared_expert_row_scales_at),
            nullptr,
            b.x,
            b.y,
            static_cast<int>(b.k),
            shared_expert_k_tiles,
            static_cast<int>(b.n),
            shared_expert_panels};
  }
  __device__ __forceinline__ int row_of(int slot) const
  {
    if (call.n_rows == 1) return 0;
    return call.row_of_slot ? __ldcg(call.row_of_slot + slot) : slot;
  }
  /* Slots of the shared expert's weight are its rows. */
  __device__ __forceinline__ int row_of(int matrix, int slot) const
  {
    return matrix < call.n_matrices ? row_of(slot) : slot;
  }
  /* Address of the results of a slot: columns of y are those of W, or half of them. */
  __device__ __forceinline__ void *y_of(const grouped_operands &of, int slot) const
  {
    return static_cast<uint16_t *>(of.y) + static_cast<int64_t>(slot) * (activation.is_gated ? of.n / 2 : of.n);
  }
  __device__ __forceinline__ void *y_of(int slot) const
  {
    return static_cast<uint16_t *>(call.y) + static_cast<int64_t>(slot) * (activation.is_gated ? n / 2 : n);
  }
};

/* Called by all threads, before the table is built. The next kernel may start once this kernel has waited, so a
 * successor for which the starts are settled reads data that was complete before this kernel. */
__device__ __forceinline__ void wait_for_starts(const grouped_params &p)
{
  if (p.call.starts_are_settled) return;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) let_next_kernel_start();
}

/* Called by consumers before they write y: waits for the previous kernel, since wait_for_starts may have returned
 * without waiting. Warps that read x wait separately. */
__device__ __forceinline__ void wait_in_grouped(const grouped_params &p)
{
  if (!p.call.starts_are_settled) return;
  wait_for_previous_kernel();
  if (threadIdx.x == 0) let_next_kernel_start();
}

/* Called by one thread of each block, once for each tile that the block processes: requests the number of its next
 * tile. The result takes as long as a stage of weights, and is read when the tile's copies have been issued. n_tiles:
 * number of tiles of all blocks; that many requests leave the counter unchanged. */
__device__ __forceinline__ unsigned fetch_next(const grouped_params &p, int n_tiles)
{
  if (!p.call.next_tile) return 0;
  return atomicInc(reinterpret_cast<unsigned *>(p.call.next_tile), static_cast<unsigned>(n_tiles - 1));
}

/* The block's tile after number `tile`, from the result of the request. Blocks begin with one tile each, from number
 * `first` on. */
__device__ __forceinline__ int next_of(const grouped_params &p, unsigned answer, int tile, int first)
{
  const int blocks = static_cast<int>(gridDim.x);
  return p.call.next_tile ? first + blocks + static_cast<int>(answer) : tile + blocks;
}

/* The K tiles of n_panels neighbouring panels. */
template <typename PANEL>
__device__ __forceinline__ weight_stream stream_of_panels(const grouped_operands &of, int panel, int n_panels)
{
  return {of.weights + static_cast<int64_t>(panel) * PANEL::BYTES, static_cast<int64_t>(of.n_panels) * PANEL::BYTES,
          n_panels * PANEL::BYTES};
}

/* The kernels of tile number `tile` of the family's shapes. Defined in few_rows_instances.cuh and
 * wgmma_instances.cuh. */
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &grouped_few_kernels(int tile);
template <yk_gemm_encoding ENCODING, yk_dtype DTYPE> const tile_kernels &grouped_wgmma_kernels(int tile);

/* For all kernels of the table (occupancy.cuh). */
inline cudaError_t allow_shared_bytes(const tile_kernels &kernels, int bytes)
{
  for (const void *kernel : kernels.of_groups) {
    const cudaError_t error = kernel ? allow_shared_bytes(kernel, bytes) : cudaSuccess;
    if (error != cudaSuccess) return error;
  }
  return cudaSuccess;
}

/* Launch parameters of a kernel of few rows. */
struct few_launch {
  grouped_params params;
  int64_t blocks;
  int threads, shared_bytes;
};

/* tile: of GROUPED_FEW_SHAPES. */
few_launch launch_of_few(const yk_gemm_gpu &gpu, const yk_gemm_desc &desc, int tile, const yk_grouped_call &call);

cudaError_t grouped_sm80_init();
cudaError_t grouped_sm80_forward(const yk_gemm_desc &desc, bool is_packed, const yk_grouped_call &call,
                                 cudaStream_t stream);

} // namespace yk_gemm

#endif
