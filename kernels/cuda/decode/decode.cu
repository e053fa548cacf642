/* decode.cu - see decode.h. */
#include "kernels/cuda/decode/decode.h"

#include <algorithm>
#include <iterator>

#include "kernels/cuda/decode/kernel.cuh"
#include "kernels/cuda/gemm/occupancy.cuh"

using namespace yk_decode;

namespace {

constexpr int SHARED_ALIGNMENT = 128;

int align(int n, int by)
{
  return (n + by - 1) / by * by;
}

bool is_supported(const yk_decode_shape &s)
{
  if (s.dtype != YK_F16 && s.dtype != YK_BF16) return false;
  if (s.n_ranks < 1 || s.n_ranks > YK_DECODE_MOST_RANKS) return false;
  if (s.head_dim != HEAD_DIM || s.n_kv_heads < 1 || s.n_q_heads % s.n_kv_heads != 0) return false;
  if (s.n_q_heads / s.n_kv_heads > MOST_Q_PER_KV || !s.activation.is_gated) return false;
  if (s.hidden % TILE_K != 0 || s.ffn % TILE_K != 0 || s.n_layers < 1 || s.n_layers > MOST_LAYERS) return false;
  return s.hidden <= MOST_HIDDEN && s.ffn > 0 && s.ffn <= MOST_FFN;
}

exchange_layout exchange_of(const yk_decode_shape &s)
{
  exchange_layout e;
  const int qkv = (s.n_q_heads + 2 * s.n_kv_heads) * HEAD_DIM;
  e.of_gemm[YK_DECODE_QKV] = 1; /* after the counter */
  e.of_gemm[YK_DECODE_O] = e.of_gemm[YK_DECODE_QKV] + qkv / 4;
  e.row_chunks = s.hidden / CHUNK;
  e.of_gemm[YK_DECODE_GATE_UP] = e.of_gemm[YK_DECODE_O] + s.n_ranks * e.row_chunks;
  e.of_gemm[YK_DECODE_DOWN] = e.of_gemm[YK_DECODE_GATE_UP] + s.ffn / CHUNK;
  e.partials = e.of_gemm[YK_DECODE_DOWN] + s.n_ranks * e.row_chunks;
  e.maxima = e.partials + SPLITS * s.n_q_heads * HEAD_DIM / 2;
  e.attended = e.maxima + SPLITS * s.n_q_heads;
  e.input_of[YK_DECODE_QKV] = e.of_gemm[YK_DECODE_DOWN];
  e.input_of[YK_DECODE_O] = e.attended;
  e.input_of[YK_DECODE_GATE_UP] = e.of_gemm[YK_DECODE_O];
  e.input_of[YK_DECODE_DOWN] = e.of_gemm[YK_DECODE_GATE_UP];
  e.end = e.attended + s.n_q_heads * HEAD_DIM / CHUNK;
  return e;
}

/* Fills all but the call. slots is below LEAST_SLOTS if shared memory does not suffice. */
params params_of(const yk_gemm_gpu &gpu, const yk_decode_shape &s)
{
  params p = {};
  p.shape = s;
  p.exchange = exchange_of(s);
  const int columns[YK_DECODE_N_GEMMS] = {(s.n_q_heads + 2 * s.n_kv_heads) * HEAD_DIM, s.hidden, 2 * s.ffn, s.hidden};
  const int inputs[YK_DECODE_N_GEMMS] = {s.hidden, s.n_q_heads * HEAD_DIM, s.hidden, s.ffn};
  p.q_per_kv = s.n_q_heads / s.n_kv_heads;
  p.per_element = 1.0f / static_cast<float>(s.hidden);
  p.scale_log2 = s.attention_scale * 1.44269504f;
  p.n_blocks = gpu.n_multiprocessors;
  for (int i = 0; i < YK_DECODE_N_GEMMS; i++) {
    p.n_panels[i] = columns[i] / PANEL_COLUMNS;
    p.n_tiles[i] = inputs[i] / TILE_K;
    p.n_blocks = std::min(p.n_blocks, p.n_panels[i]); /* every thread block sends columns of each row: exchange.cuh */
  }
  int sums[2] = {};
  for (int i = 0; i < YK_DECODE_N_GEMMS; i++) {
    const int panels = align(yk_cuda::ceil_div(p.n_panels[i], p.n_blocks), UNIT_PANELS);
    sums[i % 2] = std::max(sums[i % 2], panels * PANEL_SUMS * 4);
  }
  const int outputs = ATTENTION_WARPS * p.q_per_kv * (HEAD_DIM + 2);
  shared_layout layout = {};
  const int fixed[] = {WARPS * PASS_TILES * X_TILE_BYTES,
                       WARPS * PASS_TILES * static_cast<int>(sizeof(x_scale)),
                       std::max(sums[0], outputs * 4),
                       sums[1],
                       s.hidden * 2,
                       (MOST_Q_PER_KV + 2) * TOKEN_BYTES,
                       HEAD_DIM * 4,
                       WARPS * 4,
                       MOST_BLOCK_PAGES * 4,
                       YK_DECODE_N_GEMMS * static_cast<int>(sizeof(panel_range)),
                       WARPS * static_cast<int>(sizeof(layer_units)),
                       s.n_layers * static_cast<int>(sizeof(yk_decode_weights))};
  int32_t *const offsets[] = {&layout.x,        &layout.x_scales, &layout.sums[0], &layout.sums[1],
                              &layout.residual, &layout.queries,  &layout.angles,  &layout.squares,
                              &layout.pages,    &layout.ranges,   &layout.units,   &layout.layers};
  int bytes = 0;
  for (int n : fixed) bytes += align(n, SHARED_ALIGNMENT);
  p.slots = (yk_gemm::ALL_SHARED_BYTES - bytes - SHARED_ALIGNMENT) / (WARPS * (UNIT_BYTES + 16));
  layout.barriers = WARPS * p.slots * UNIT_BYTES;
  int at = align(layout.barriers + 2 * WARPS * p.slots * 8, SHARED_ALIGNMENT);
  for (size_t i = 0; i < std::size(fixed); i++) {
    *offsets[i] = at;
    at = align(at + fixed[i], SHARED_ALIGNMENT);
  }
  layout.end = at;
  p.shared = layout;
  return p;
}

template <bool SHARED> const void *kernel_of(yk_dtype dtype)
{
  return dtype == YK_F16 ? reinterpret_cast<const void *>(decode_layers<YK_F16, SHARED>)
                         : reinterpret_cast<const void *>(decode_layers<YK_BF16, SHARED>);
}

const void *kernel_of(const yk_decode_shape &shape)
{
  return shape.n_ranks > 1 ? kernel_of<true>(shape.dtype) : kernel_of<false>(shape.dtype);
}

} // namespace

extern "C" cudaError_t yk_decode_max_kv_tokens(const yk_gemm_gpu *gpu, const yk_decode_shape *shape,
                                               int32_t *max_kv_tokens)
{
  *max_kv_tokens = 0;
  if (gpu->path != YK_GEMM_WGMMA || !is_supported(*shape)) return cudaSuccess;
  const params p = params_of(*gpu, *shape);
  if (p.slots < LEAST_SLOTS || p.n_blocks < shape->n_kv_heads * SPLITS) return cudaSuccess;
  const void *kernel = kernel_of(*shape);
  cudaError_t error = yk_gemm::allow_shared_bytes(kernel, yk_gemm::ALL_SHARED_BYTES);
  if (error != cudaSuccess) return error;
  int blocks = 0;
  error =
      cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, BLOCK_THREADS, static_cast<size_t>(p.shared.end));
  if (error == cudaSuccess && blocks > 0) *max_kv_tokens = SPLITS * MOST_BLOCK_PAGES * YK_KV_BLOCK_TOKENS;
  return error;
}

extern "C" size_t yk_decode_exchange_bytes(const yk_decode_shape *shape)
{
  return static_cast<size_t>(exchange_of(*shape).end) * sizeof(uint4);
}

extern "C" cudaError_t yk_decode_launch(const yk_gemm_gpu *gpu, const yk_decode_shape *shape,
                                        const yk_decode_call *call, cudaStream_t stream)
{
  params p = params_of(*gpu, *shape);
  p.call = *call;
  p.exchange_memory = static_cast<uint4 *>(call->exchange[shape->rank]);
  void *args[] = {&p};
  return cudaLaunchCooperativeKernel(kernel_of(*shape), dim3(static_cast<unsigned>(p.n_blocks)), dim3(BLOCK_THREADS),
                                     args, static_cast<size_t>(p.shared.end), stream);
}
