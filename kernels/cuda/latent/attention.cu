/* attention.cu - latent attention: the choice of kernel for each size, and the products with kv_b_proj before and after
 * it. */
#include <algorithm>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "base/checked.h"
#include "kernels/cuda/blas/blas.h"
#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/latent/expanded_work.cuh"
#include "kernels/cuda/latent/latent.h"
#include "kernels/cuda/latent/mma_sync_kernel.cuh"
#include "kernels/cuda/latent/scratch.h"

using namespace yk_latent;

namespace {

constexpr int MIN_SPLIT_TOKENS = 4 * TILE_TOKENS;

yk_status cuda_status(cudaError_t error, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "latent attention: launch failed: %s", cudaGetErrorString(error));
}

/* Sets the rows and heads of a tile of at most 16 mt queries. */
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

/* The number of splits that fills the multiprocessors best, for sequences of at most max_tokens. */
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
cudaError_t launch_mma_sync(const yk_cuda_latent &latent, params &p, const yk_batch &batch, cudaStream_t stream)
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

/* K[h]^T q_nope (before the attention kernel) or V[h] times the sums (after the kernel), for every head. */
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

/* A range of the step's rows. */
params rows_of(const params &all, int32_t first, int32_t n, const yk_latent_attention_args *args)
{
  const yk_latent_layout &l = all.layout;
  params p = all;
  const int64_t head_rows = static_cast<int64_t>(YK_CUDA_LATENT_ROWS) * l.n_heads;
  p.n_rows = n;
  if (all.row_of) {
    p.row_of += first;
  } else {
    p.y = static_cast<char *>(all.y) + static_cast<int64_t>(first) * l.n_heads * l.value_dim * 2;
    p.q = static_cast<const char *>(all.q) + first * all.q_stride * 2;
  }
  p.positions += first;
  p.kv_slots += first;
  p.seq_of_row += first;
  p.absorbed = args->scratch;
  p.sums = static_cast<char *>(args->scratch) + head_rows * l.kv_rank * 2;
  p.partial_sums = reinterpret_cast<float *>(static_cast<char *>(args->scratch) + head_rows * l.kv_rank * 4);
  return p;
}

/* Attention by mma.sync, with cuBLAS for the products before and after. */
yk_status run_mma_sync(const yk_cuda_latent *latent, params p, const yk_batch &batch, yk_dtype dtype,
                       cudaStream_t stream, yk_err *err)
{
  YK_TRY(multiply_heads(latent, p, dtype, true, p.absorbed, err));
  YK_TRY(cuda_status(dtype == YK_F16 ? launch_mma_sync<__half>(*latent, p, batch, stream)
                                     : launch_mma_sync<__nv_bfloat16>(*latent, p, batch, stream),
                     err));
  return multiply_heads(latent, p, dtype, false, p.y, err);
}

/* Assigns the memory of partial results and of their descriptions within the scratch. */
void place_partials(params *p)
{
  constexpr int64_t MOST = INT64_C(64) * YK_CUDA_LATENT_SPLIT_BLOCKS; /* queries with partial results */
  p->partial_stats = reinterpret_cast<float2 *>(p->partial_sums + MOST * KV_RANK);
  p->splits = reinterpret_cast<item_splits *>(p->partial_stats + MOST);
}

yk_status run_many(const yk_cuda_latent *latent, params p, const yk_batch &batch, yk_dtype dtype, cudaStream_t stream,
                   yk_err *err)
{
  choose_tile(&p, 4, batch.max_rows_per_seq <= 1);
  place_partials(&p);
  const auto launch = dtype == YK_F16 ? launch_many<__half> : launch_many<__nv_bfloat16>;
  return cuda_status(launch(latent->encode_tensor_map, latent->n_multiprocessors, p, stream), err);
}

bool takes_wgmma(const yk_cuda_latent &latent, const yk_latent_layout &l)
{
  return latent.encode_tensor_map && l.nope_dim % HEAD_MULTIPLE == 0 && l.value_dim % HEAD_MULTIPLE == 0;
}

/* Whether decode rows run in one launch. With many heads and few rows most bytes read are weights; three launches load
 * the weights of the outputs while few multiprocessors compute attention. */
bool takes_decode(const yk_cuda_latent &latent, const yk_batch &batch, const yk_latent_layout &l)
{
  constexpr int32_t FEW_HEADS = 16, ROWS_OF_MANY_HEADS = 8;
  return takes_wgmma(latent, l) && l.nope_dim == 128 && l.value_dim == 128 && batch.max_rows_per_seq <= 1 &&
         (l.n_heads <= FEW_HEADS || batch.n_tokens >= ROWS_OF_MANY_HEADS);
}

/* rows: new tokens of all of the step's rows; latent NULL: none. */
yk_status run_decode(const yk_cuda_latent *latent, const params &all, const yk_latent_attention_args *args,
                     const new_rows &rows, yk_dtype dtype, cudaStream_t stream, yk_err *err)
{
  const auto launch = dtype == YK_F16 ? launch_decode<__half> : launch_decode<__nv_bfloat16>;
  for (int32_t first = 0; first < all.n_rows; first += YK_CUDA_LATENT_ROWS) {
    params p = rows_of(all, first, std::min<int32_t>(YK_CUDA_LATENT_ROWS, all.n_rows - first), args);
    choose_tile(&p, p.layout.n_heads <= 16 ? 1 : 4, true);
    place_partials(&p);
    p.grid_counters = latent->grid_counters;
    YK_TRY(cuda_status(launch(*latent, p, rows, stream), err));
  }
  return YK_OK;
}

/* Whether the attention kernels can compute new tokens. */
bool are_aligned(const yk_latent_attention_args &args)
{
  return args.latent_stride % 8 == 0 && yk_cuda::is_aligned(args.latent, 16);
}

/* Returns the heads of a cluster, or 0 if clusters are not used: for few decode rows whose norm and rotation are
 * pending, and only if no row is so long that its clusters would take longer than three launches on all
 * multiprocessors. */
int cluster_heads_of(const yk_cuda_latent &latent, const yk_latent_attention_args &args)
{
  const yk_latent_layout &l = args.layout;
  const yk_batch &batch = *args.batch;
  if (!takes_wgmma(latent, l) || l.nope_dim != 128 || l.value_dim != 128) return 0;
  if (batch.max_rows_per_seq > 1 || batch.max_kv_tokens > CLUSTER_MOST_TOKENS) return 0;
  if (!are_aligned(args)) return 0;
  return cluster_heads(l, batch.n_tokens, latent.n_clusters);
}

new_rows new_rows_of(const yk_latent_attention_args &args)
{
  return {args.q, args.latent, args.norm_w, args.latent_stride, args.rope, args.norm_eps, args.cache};
}

/* Attention with latent vectors as keys and values of all heads. */
yk_status run_absorbed(const yk_cuda_latent *latent, const params &all, const yk_latent_attention_args *args,
                       yk_dtype dtype, cudaStream_t stream, yk_err *err)
{
  const auto run = takes_wgmma(*latent, args->layout) ? run_many : run_mma_sync;
  for (int32_t first = 0; first < all.n_rows; first += YK_CUDA_LATENT_ROWS) {
    const params p = rows_of(all, first, std::min<int32_t>(YK_CUDA_LATENT_ROWS, all.n_rows - first), args);
    YK_TRY(run(latent, p, *args->batch, dtype, stream, err));
  }
  return YK_OK;
}

/* ---- Keys and values of each head -------------------------------------------------------------------------------- */

/* Memory of the lists and of the keys and values within the scratch. */
struct expanded_plan {
  expanded_launch launch;
  other_rows others;
};

/* Returns false if no sequence has enough rows, if too many sequences may have, or if so few heads fit at once that
 * there would be too many groups of heads. */
bool plan_expanded(const yk_cuda_latent &latent, const yk_latent_attention_args &args, expanded_plan *plan)
{
  const yk_batch &b = *args.batch;
  if (!latent.encode_tensor_map || !yk_cuda_latent_expands(&args.layout)) return false;
  if (b.max_rows_per_seq <= YK_CUDA_LATENT_EXPANDED_ROWS) return false;
  const int32_t n_seqs = std::min(b.n_seqs, b.n_tokens / (YK_CUDA_LATENT_EXPANDED_ROWS + 1)); /* upper bound */
  const int64_t made_tokens = n_seqs * yk_round_up_i64(b.max_kv_tokens, EXPANDED_TILE);
  const int64_t at_once = YK_CUDA_LATENT_MADE_BYTES / (made_tokens * MADE_DIM * 2);
  if (n_seqs > YK_CUDA_LATENT_EXPANDED_SEQS || at_once * YK_CUDA_LATENT_HEAD_GROUPS < args.layout.n_heads) return false;
  char *memory = static_cast<char *>(args.scratch) + yk_cuda_latent_scratch_bytes(&args.layout, 0);
  int32_t *lists = reinterpret_cast<int32_t *>(memory + sizeof(expanded_work));
  const int64_t list_bytes = yk_round_up_i64(static_cast<int64_t>(sizeof(expanded_work)) + INT64_C(16) * b.n_tokens,
                                             YK_DEVICE_ALIGNMENT_BYTES);
  plan->launch = {latent.encode_tensor_map, latent.n_multiprocessors,  reinterpret_cast<expanded_work *>(memory),
                  memory + list_bytes,      YK_CUDA_LATENT_MADE_BYTES, made_tokens};
  plan->others = {lists, lists + b.n_tokens, lists + 2 * b.n_tokens, lists + 3 * b.n_tokens,
                  std::min(b.n_tokens - b.max_rows_per_seq, (b.n_seqs - 1) * YK_CUDA_LATENT_EXPANDED_ROWS)};
  return true;
}

yk_status run_expanded(const yk_cuda_latent *latent, const params &all, const yk_latent_attention_args *args,
                       const expanded_plan &plan, yk_dtype dtype, cudaStream_t stream, yk_err *err)
{
  const other_rows &others = plan.others;
  YK_TRY(cuda_status(launch_list_expanded(*args->batch, plan.launch.work, others, stream), err));
  params rest = all;
  rest.n_rows = others.most;
  rest.row_of = others.rows;
  rest.positions = others.positions;
  rest.kv_slots = others.kv_slots;
  rest.seq_of_row = others.seq_of_row;
  YK_TRY(run_absorbed(latent, rest, args, dtype, stream, err));
  const auto launch = dtype == YK_F16 ? launch_expanded<__half> : launch_expanded<__nv_bfloat16>;
  return cuda_status(launch(plan.launch, all, stream), err);
}

} // namespace

extern "C" cudaError_t yk_cuda_latent_init(yk_cuda_latent *latent, yk_dtype dtype)
{
  latent->n_clusters = latent->n_pairs = 0;
  if (!latent->encode_tensor_map) return cudaSuccess;
  const auto count = dtype == YK_F16 ? count_pairs<__half> : count_pairs<__nv_bfloat16>;
  const auto init = dtype == YK_F16 ? init_cluster<__half> : init_cluster<__nv_bfloat16>;
  const cudaError_t error = count(&latent->n_pairs);
  return error == cudaSuccess ? init(&latent->n_clusters) : error;
}

extern "C" yk_status yk_cuda_latent_attention_run(const yk_cuda_latent *latent, const yk_latent_attention_args *args,
                                                  yk_dtype dtype, cudaStream_t stream, yk_err *err)
{
  const params all = params_of(*args);
  const yk_latent_layout &l = args->layout;
  const bool is_generic =
      l.kv_rank != KV_RANK || l.rope_dim != ROPE_DIM || (l.nope_dim + l.rope_dim) % 8 != 0 || args->q_stride % 8 != 0;
  expanded_plan plan;
  if (all.n_rows <= 0 || l.n_heads <= 0) return YK_OK;
  if (args->growth.beta != 0.0f) YK_TRY(cuda_status(yk_cuda_launch_grow_queries(dtype, args, stream), err));
  const int heads = is_generic ? 0 : cluster_heads_of(*latent, *args);
  if (heads > 0) {
    const auto launch = dtype == YK_F16 ? launch_cluster<__half> : launch_cluster<__nv_bfloat16>;
    return cuda_status(launch(latent->encode_tensor_map, heads, all, new_rows_of(*args), stream), err);
  }
  const bool is_decode = !is_generic && takes_decode(*latent, *args->batch, l);
  if (is_decode && are_aligned(*args) && all.n_rows <= YK_CUDA_LATENT_ROWS)
    return run_decode(latent, all, args, new_rows_of(*args), dtype, stream, err);
  YK_TRY(cuda_status(yk_cuda_launch_latent_rope_cache(dtype, args, stream), err));
  if (is_decode) return run_decode(latent, all, args, new_rows(), dtype, stream, err);
  if (is_generic) return cuda_status(launch_generic(dtype, all, stream), err);
  return plan_expanded(*latent, *args, &plan) ? run_expanded(latent, all, args, plan, dtype, stream, err)
                                              : run_absorbed(latent, all, args, dtype, stream, err);
}
