/* params.cuh - parameters of the kernels of gated delta nets, and the columns of a value head. */
#ifndef YK_KERNELS_CUDA_DELTA_PARAMS_CUH
#define YK_KERNELS_CUDA_DELTA_PARAMS_CUH

#include <cstdint>

#include "kernels/cuda/common/causal_convolution.cuh"
#include "kernels/device.h"

namespace yk_delta {

using sequence = yk_cuda::recurrent_sequence;
using yk_cuda::conv_place;
using yk_cuda::silu;

static_assert(YK_DELTA_TAPS == yk_cuda::CONV_TAPS, "of the shared convolution");

constexpr float NORM_FLOOR = 1e-6f; /* added to the squared lengths of q and k */

struct params {
  void *y;
  const void *x;
  /* Rows of scratch_stride bytes with the values that a chunk reads: see row_scratch. */
  unsigned char *scratch;
  int64_t scratch_stride;
  yk_delta_layout layout;
  int32_t n_values; /* value heads */
  int32_t n_tokens;
  int64_t n_channels;              /* of the convolution */
  int64_t window_at, state_floats; /* in a state: offset of the convolution's inputs, and all of it */
  const float *conv_w, *rate, *dt_bias, *norm_w;
  float norm_eps;
  float *states, *snapshots;
  const int32_t *seq_of_row, *row_starts, *kv_tokens, *seq_slots, *state_loads, *state_saves, *state_save_rows;
  int32_t min_chunk_rows; /* sequences with at least this number of rows are computed in chunks, others token by
                           * token */
  uint32_t *readers; /* [n_seqs, n_key_heads] thread blocks that have read the inputs of q and k; zeros between calls */
};

/* A value head: its index among the heads, and its columns of x. */
struct head {
  int32_t index, key, of_key; /* of_key: index among the value heads of its key head */
  int64_t q, k, v, z, b, a;   /* columns */

  __device__ static head of(const params &p, int32_t index)
  {
    const yk_delta_layout &l = p.layout;
    const int32_t key = index / l.values_per_key, j = index % l.values_per_key;
    return {index,
            key,
            j,
            l.q + key * l.qk_step,
            l.k + key * l.qk_step,
            l.v + key * l.v_step + static_cast<int64_t>(j) * l.value_dim,
            l.z + key * l.z_step + static_cast<int64_t>(j) * l.value_dim,
            l.b + key * l.ba_step + j,
            l.a + key * l.ba_step + j};
  }
};

/* Launches of a kernel for any activation type, with one thread block for each value head and sequence. */
cudaError_t launch_recurrent(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream);
cudaError_t launch_chunks(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream);
cudaError_t launch_generic(const params &p, yk_dtype dtype, int32_t n_seqs, cudaStream_t stream);

} // namespace yk_delta

#endif
