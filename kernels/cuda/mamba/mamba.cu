/* mamba.cu - Mamba2: the choice of kernels. See mamba.h. */
#include "kernels/cuda/mamba/mamba.h"

#include "kernels/cuda/mamba/params.cuh"

using namespace yk_mamba;

extern "C" size_t yk_cuda_mamba_readers_bytes(int32_t max_seqs)
{
  return static_cast<size_t>(max_seqs) * YK_CUDA_MAMBA_MAX_GROUPS * sizeof(uint32_t);
}

static params params_of(void *readers, const yk_mamba_args &args)
{
  params p = {};
  yk_cuda::take_batch(p, *args.batch);
  p.y = args.y;
  p.x = args.x;
  p.scratch = args.scratch;
  p.layout = args.layout;
  p.n_heads = yk_mamba_n_heads(&args.layout);
  p.width = yk_mamba_width(&args.layout);
  p.n_channels = yk_mamba_channels(&args.layout);
  p.x_stride = yk_mamba_x_stride(&args.layout);
  p.scratch_stride = yk_mamba_scratch_floats(&args.layout);
  p.window_at = p.width * args.layout.state_size;
  p.state_floats = yk_mamba_state_floats(&args.layout);
  p.conv_w = args.conv_w;
  p.conv_bias = args.conv_bias;
  p.rate = args.rate;
  p.dt_bias = args.dt_bias;
  p.skip = args.skip;
  p.norm_w = args.norm_w;
  p.min_step = args.min_step;
  p.max_step = args.max_step;
  p.norm_eps = args.norm_eps;
  p.states = args.states;
  p.snapshots = args.snapshots;
  p.readers = static_cast<uint32_t *>(readers);
  return p;
}

/* In registers the state has one size. Chunks also read pairs of elements of x. */
static bool fits_registers(const yk_mamba_layout &l)
{
  return l.head_dim == 64 && l.state_size == 128;
}

static cudaError_t launch(params &p, const yk_batch &batch, yk_dtype dtype, cudaStream_t stream)
{
  const bool in_registers = fits_registers(p.layout) && p.x_stride % 2 == 0;
  const bool has_long = batch.max_rows_per_seq >= YK_STATE_CHUNK_ROWS;
  p.min_chunk_rows = YK_STATE_CHUNK_ROWS;
  cudaError_t error = launch_recurrent(p, dtype, in_registers, batch.n_seqs, stream);
  if (!has_long) return error;
  if (error == cudaSuccess && in_registers) error = launch_convolution(p, dtype, stream);
  if (error == cudaSuccess && in_registers) error = launch_chunks(p, dtype, batch.n_seqs, stream);
  return error == cudaSuccess ? launch_norm(p, dtype, in_registers, stream) : error;
}

static yk_status check(const yk_mamba_layout &l, yk_err *err)
{
  const auto fits = [](int32_t n) { return n > 0 && n % YK_MAMBA_UNIT == 0 && n <= YK_CUDA_MAMBA_MAX_DIM; };
  if (!fits(l.head_dim) || !fits(l.state_size))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "mamba: expected heads and states of multiples of %d elements up to %d, found %d and %d",
                      YK_MAMBA_UNIT, YK_CUDA_MAMBA_MAX_DIM, l.head_dim, l.state_size);
  if (l.n_groups > YK_CUDA_MAMBA_MAX_GROUPS)
    return yk_err_set(err, YK_E_UNSUPPORTED, "mamba: expected at most %d groups on a rank, found %d",
                      YK_CUDA_MAMBA_MAX_GROUPS, l.n_groups);
  return YK_OK;
}

extern "C" yk_status yk_cuda_mamba_run(void *readers, const yk_mamba_args *args, yk_dtype dtype, cudaStream_t stream,
                                       yk_err *err)
{
  YK_TRY(check(args->layout, err));
  if (args->batch->n_seqs <= 0 || args->batch->n_tokens <= 0 || args->layout.n_groups <= 0) return YK_OK;
  params p = params_of(readers, *args);
  const cudaError_t error = launch(p, *args->batch, dtype, stream);
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "mamba: launch failed: %s", cudaGetErrorString(error));
}
