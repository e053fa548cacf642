/* attention.cu - latent attention: which kernel serves which sizes, and the products with kv_b_proj around it. */
#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/checked.h"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/attention_kernel.cuh"
#include "kernels/cuda/latent/latent.h"
#include "kernels/cuda/linear/layout.h"

using namespace yk_latent;

namespace {

constexpr int MIN_SPLIT_TOKENS = 4 * TILE_TOKENS;

yk_status cuda_status(cudaError_t error, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "latent attention: launch failed: %s", cudaGetErrorString(error));
}

/* Rows and heads of a tile of at most 16 mt queries. */
void choose_tile(params *p, int mt, bool is_decode)
{
  const int queries = 16 * mt;
  p->n_head_tiles = (p->layout.n_heads + queries - 1) / queries;
  p->tile_heads = (p->layout.n_heads + p->n_head_tiles - 1) / p->n_head_tiles;
  p->tile_rows = is_decode ? 1 : std::max(queries / p->tile_heads, 1);
}

int n_items(const params &p)
{
  return (p.n_rows + p.tile_rows - 1) / p.tile_rows * p.n_head_tiles;
}

/* As many splits as fill the multiprocessors best, of sequences of at most max_tokens. */
int choose_splits(const params &p, int n_multiprocessors, int32_t max_tokens)
{
  const int items = n_items(p), most = std::min(YK_CUDA_LATENT_SPLIT_BLOCKS / items, max_tokens / MIN_SPLIT_TOKENS);
  int best = 1;
  double best_use = 0;
  for (int splits = 1; splits <= most; splits++) {
    const int blocks = items * splits, waves = (blocks + n_multiprocessors - 1) / n_multiprocessors;
    const double use = static_cast<double>(blocks) / (static_cast<double>(waves) * n_multiprocessors);
    if (use <= best_use * 1.02) continue;
    best = splits;
    best_use = use;
  }
  return best;
}

template <typename T, int MT> cudaError_t launch_tiles(const params &p, int shared_bytes, cudaStream_t stream)
{
  const int own = static_cast<int>(sizeof(shared_block<MT>));
  const int n_stages = std::min((shared_bytes - own) / STAGE_BYTES, 4);
  if (n_stages < 2) return cudaErrorNotSupported;
  const size_t bytes = static_cast<size_t>(own + n_stages * STAGE_BYTES);
  const cudaError_t error = cudaFuncSetAttribute(attention_kernel<T, MT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                                 static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  const dim3 grid(n_items(p), p.n_splits);
  return launch_dependent(attention_kernel<T, MT>, {grid, THREADS, bytes, 1}, stream, p, n_stages);
}

template <typename T>
cudaError_t launch_attention(const yk_cuda_latent &latent, params &p, const yk_batch &batch, cudaStream_t stream)
{
  const bool is_decode = batch.max_rows_per_seq <= 1;
  const int mt = is_decode && p.layout.n_heads <= 16 ? 1 : is_decode && p.layout.n_heads <= 32 ? 2 : 4;
  choose_tile(&p, mt, is_decode);
  p.n_splits = choose_splits(p, latent.n_multiprocessors, batch.max_kv_tokens);
  p.partial_stats = reinterpret_cast<float2 *>(p.partial_sums + static_cast<int64_t>(n_items(p)) * p.n_splits *
                                                                    p.tile_rows * p.tile_heads * KV_RANK);
  cudaError_t error = mt == 1   ? launch_tiles<T, 1>(p, latent.shared_bytes, stream)
                      : mt == 2 ? launch_tiles<T, 2>(p, latent.shared_bytes, stream)
                                : launch_tiles<T, 4>(p, latent.shared_bytes, stream);
  if (error != cudaSuccess || p.n_splits == 1) return error;
  const dim3 grid(n_items(p), p.tile_rows * p.tile_heads);
  return launch_dependent(combine_kernel<T>, {grid, KV_RANK / 4, 0, 1}, stream, p);
}

params params_of(const yk_latent_attention_args &args)
{
  params p = {};
  p.y = args.y;
  p.q = args.q;
  p.kv_up = args.kv_up;
  p.cache = args.cache;
  p.q_stride = args.q_stride;
  p.layout = args.layout;
  p.scale_log2 = args.scale * 1.4426950408889634f;
  p.n_rows = args.batch->n_tokens;
  p.block_table_stride = args.batch->block_table_stride;
  p.positions = args.batch->positions;
  p.kv_slots = args.batch->kv_slots;
  p.seq_of_row = args.batch->seq_of_row;
  p.block_tables = args.batch->block_tables;
  return p;
}

/* K[h]^T q_nope (to the left of the kernel) or V[h] sums (to its right), for every head. */
yk_status multiply_heads(const yk_cuda_latent *latent, const params &p, yk_dtype dtype, bool absorbs, void *y,
                         yk_err *err)
{
  const yk_latent_layout &l = p.layout;
  const int64_t up_stride = static_cast<int64_t>(l.nope_dim + l.value_dim) * l.kv_rank;
  yk_cuda_blas_batch batch = {};
  batch.dtype = dtype;
  batch.n_batch = l.n_heads;
  batch.m = p.n_rows;
  batch.w_stride = up_stride;
  batch.y = y;
  if (absorbs) {
    batch.x = p.q;
    batch.w = p.kv_up;
    batch.w_is_kn = true;
    batch.n = l.kv_rank;
    batch.k = l.nope_dim;
    batch.x_row_stride = p.q_stride;
    batch.x_stride = l.nope_dim + l.rope_dim;
    batch.y_row_stride = static_cast<int64_t>(l.n_heads) * l.kv_rank;
    batch.y_stride = l.kv_rank;
  } else {
    batch.x = p.sums;
    batch.w = static_cast<const char *>(p.kv_up) + static_cast<int64_t>(l.nope_dim) * l.kv_rank * 2;
    batch.n = l.value_dim;
    batch.k = l.kv_rank;
    batch.x_row_stride = static_cast<int64_t>(l.n_heads) * l.kv_rank;
    batch.x_stride = l.kv_rank;
    batch.y_row_stride = static_cast<int64_t>(l.n_heads) * l.value_dim;
    batch.y_stride = l.value_dim;
  }
  return yk_cuda_blas_multiply_batch(latent->blas, &batch, err);
}

/* Some of the step's rows. */
params rows_of(const params &all, int32_t first, int32_t n, const yk_latent_attention_args *args)
{
  const yk_latent_layout &l = all.layout;
  params p = all;
  const int64_t head_rows = static_cast<int64_t>(YK_CUDA_LATENT_ROWS) * l.n_heads;
  p.n_rows = n;
  p.y = static_cast<char *>(all.y) + static_cast<int64_t>(first) * l.n_heads * l.value_dim * 2;
  p.q = static_cast<const char *>(all.q) + first * all.q_stride * 2;
  p.positions += first;
  p.kv_slots += first;
  p.seq_of_row += first;
  p.absorbed = args->scratch;
  p.sums = static_cast<char *>(args->scratch) + head_rows * l.kv_rank * 2;
  p.partial_sums = reinterpret_cast<float *>(static_cast<char *>(args->scratch) + head_rows * l.kv_rank * 4);
  return p;
}

} // namespace

extern "C" yk_status yk_cuda_latent_attention_run(const yk_cuda_latent *latent, const yk_latent_attention_args *args,
                                                  yk_dtype dtype, cudaStream_t stream, yk_err *err)
{
  const params all = params_of(*args);
  const yk_latent_layout &l = args->layout;
  if (all.n_rows <= 0 || l.n_heads <= 0) return YK_OK;
  if (l.kv_rank != KV_RANK || l.rope_dim != ROPE_DIM || (l.nope_dim + l.rope_dim) % 8 != 0 || args->q_stride % 8 != 0)
    return cuda_status(launch_generic(dtype, all, stream), err);
  for (int32_t first = 0; first < all.n_rows; first += YK_CUDA_LATENT_ROWS) {
    params p = rows_of(all, first, std::min<int32_t>(YK_CUDA_LATENT_ROWS, all.n_rows - first), args);
    YK_TRY(multiply_heads(latent, p, dtype, true, const_cast<void *>(p.absorbed), err));
    YK_TRY(cuda_status(dtype == YK_F16 ? launch_attention<__half>(*latent, p, *args->batch, stream)
                                       : launch_attention<__nv_bfloat16>(*latent, p, *args->batch, stream),
                       err));
    YK_TRY(multiply_heads(latent, p, dtype, false, p.y, err));
  }
  return YK_OK;
}
