/* delta.cu - gated delta nets: the choice of kernels. See delta.h. */
#include "kernels/cuda/delta/delta.h"

#include "kernels/cuda/delta/params.cuh"

using namespace yk_delta;

extern "C" size_t yk_cuda_delta_readers_bytes(int32_t max_seqs)
{
  return static_cast<size_t>(max_seqs) * YK_CUDA_DELTA_MAX_KEY_HEADS * sizeof(uint32_t);
}

static params params_of(void *readers, const yk_gated_delta_args &args)
{
  params p = {};
  yk_cuda::take_batch(p, *args.batch);
  p.y = args.y;
  p.x = args.x;
  p.scratch = reinterpret_cast<unsigned char *>(args.scratch);
  p.scratch_stride = yk_delta_scratch_floats(&args.layout) * static_cast<int64_t>(sizeof(float));
  p.layout = args.layout;
  p.n_values = yk_delta_n_value_heads(&args.layout);
  p.n_channels = yk_delta_channels(&args.layout);
  p.window_at = static_cast<int64_t>(p.n_values) * args.layout.key_dim * args.layout.value_dim;
  p.state_floats = yk_delta_state_floats(&args.layout);
  p.conv_w = args.conv_w;
  p.rate = args.rate;
  p.dt_bias = args.dt_bias;
  p.norm_w = args.norm_w;
  p.norm_eps = args.norm_eps;
  p.states = args.states;
  p.snapshots = args.snapshots;
  p.readers = static_cast<uint32_t *>(readers);
  return p;
}

/* Chunks read pairs of elements of x. */
static bool has_pairs(const yk_delta_layout &l)
{
  return ((l.q | l.k | l.v | l.z | l.qk_step | l.v_step | l.z_step | l.x_stride) & 1) == 0;
}

/* Minimum number of rows of a sequence for which chunks take less time than single tokens. */
constexpr int32_t MIN_CHUNK_ROWS = 16;

static cudaError_t launch(params &p, const yk_batch &batch, yk_dtype dtype, cudaStream_t stream)
{
  const yk_delta_layout &l = p.layout;
  p.min_chunk_rows = INT32_MAX;
  if (l.key_dim != 128 || l.value_dim != 128) return launch_generic(p, dtype, batch.n_seqs, stream);
  if (batch.max_rows_per_seq >= MIN_CHUNK_ROWS && has_pairs(l)) p.min_chunk_rows = MIN_CHUNK_ROWS;
  const cudaError_t error = launch_recurrent(p, dtype, batch.n_seqs, stream);
  if (error != cudaSuccess || p.min_chunk_rows == INT32_MAX) return error;
  return launch_chunks(p, dtype, batch.n_seqs, stream);
}

static bool is_head_dim(int32_t n)
{
  return n > 0 && n % YK_DELTA_HEAD_UNIT == 0 && n <= YK_DELTA_MAX_HEAD_DIM;
}

extern "C" yk_status yk_cuda_gated_delta_run(void *readers, const yk_gated_delta_args *args, yk_dtype dtype,
                                             cudaStream_t stream, yk_err *err)
{
  const yk_delta_layout &l = args->layout;
  if (!is_head_dim(l.key_dim) || !is_head_dim(l.value_dim))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "gated delta: expected heads of a multiple of %d elements up to %d, found %d and %d",
                      YK_DELTA_HEAD_UNIT, YK_DELTA_MAX_HEAD_DIM, l.key_dim, l.value_dim);
  if (l.n_key_heads > YK_CUDA_DELTA_MAX_KEY_HEADS)
    return yk_err_set(err, YK_E_UNSUPPORTED, "gated delta: expected at most %d key heads on a rank, found %d",
                      YK_CUDA_DELTA_MAX_KEY_HEADS, l.n_key_heads);
  if (args->batch->n_seqs <= 0 || l.n_key_heads <= 0) return YK_OK;
  params p = params_of(readers, *args);
  const cudaError_t error = launch(p, *args->batch, dtype, stream);
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "gated delta: launch failed: %s", cudaGetErrorString(error));
}
