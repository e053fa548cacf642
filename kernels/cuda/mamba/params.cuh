/* params.cuh - parameters of the kernels of Mamba2, and the columns and channels of a head. */
#ifndef YK_KERNELS_CUDA_MAMBA_PARAMS_CUH
#define YK_KERNELS_CUDA_MAMBA_PARAMS_CUH

#include <cstdint>

#include "kernels/cuda/common/causal_convolution.cuh"
#include "kernels/device.h"

namespace yk_mamba {

using sequence = yk_cuda::recurrent_sequence;
using yk_cuda::conv_place;
using yk_cuda::silu;
using yk_cuda::to_float;

static_assert(YK_MAMBA_TAPS == yk_cuda::CONV_TAPS, "of the shared convolution");

struct params {
  void *y;
  const void *x;
  float
      *scratch; /* rows of scratch_stride floats: results of the convolution [n_channels], then of the heads [width] */
  yk_mamba_layout layout;
  int32_t n_heads, n_tokens;
  int64_t width, n_channels, x_stride, scratch_stride;
  int64_t window_at, state_floats; /* in a state: offset of the convolution's inputs, and all of it */
  const float *conv_w, *conv_bias, *rate, *dt_bias, *skip, *norm_w;
  float min_step, max_step, norm_eps;
  float *states, *snapshots;
  const int32_t *seq_of_row, *row_starts, *kv_tokens, *seq_slots, *state_loads, *state_saves, *state_save_rows;
  int32_t min_chunk_rows; /* sequences with at least this number of rows are computed in chunks or, for other sizes,
                           * with a separate norm kernel */
  uint32_t *readers;      /* [n_seqs, n_groups] thread blocks that have ended a sequence; zeros between calls */
};

/* A head: its index, and its first columns of x and channels of the convolution. */
struct head {
  int32_t index, group, of_group; /* of_group: index among the heads of the group */
  int64_t z, dt;                  /* columns */
  conv_place x, b, c;

  __device__ static head of(const params &p, int32_t index)
  {
    const yk_mamba_layout &l = p.layout;
    const int32_t group = index / l.heads_per_group, width = static_cast<int32_t>(p.width);
    const int32_t x = index * l.head_dim, b = width + group * l.state_size, c = b + l.n_groups * l.state_size;
    return {index,
            group,
            index - group * l.heads_per_group,
            x,
            p.x_stride - p.n_heads + index,
            {x, p.width + x},
            {b, p.width + b},
            {c, p.width + c}};
  }
};

/* Location of the heads' results of a row in the scratch: floats, or elements of the activation type after chunks. */
__device__ __forceinline__ float *results_of(const params &p, int64_t row)
{
  return p.scratch + row * p.scratch_stride + p.n_channels;
}

/* Launches of a kernel for any activation type. recurrent: in_registers for heads of 64 and states of 128. norm: gates
 * of results of chunks. */
cudaError_t launch_recurrent(const params &p, yk_dtype dtype, bool in_registers, int32_t n_seqs, cudaStream_t stream);
cudaError_t launch_convolution(const params &p, yk_dtype dtype, cudaStream_t stream);
cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream);
cudaError_t launch_norm(const params &p, yk_dtype dtype, bool gates, cudaStream_t stream);

} // namespace yk_mamba

#endif
