/* kernel.cuh - one row through all layers of a dense model: a thread block on each multiprocessor, in one launch.
 *
 * The row is known to every thread block: each holds the residual, and computes norms and inputs of GEMMs by itself. A
 * GEMM is divided over thread blocks by panels of 16 columns, and over the warps of a thread block by K tiles. A thread
 * block sends its columns to all others (exchange.cuh); five rows pass in this way in a layer: qkv, the result of
 * attention (attention.cuh, with a separate exchange), o, the row between the FFN's GEMMs, and down. Weights arrive
 * through the warps' rings (ring.cuh), which fill during exchanges and attention.
 *
 * All thread blocks must run at the same time, so the launch is cooperative. */
#ifndef YK_KERNELS_CUDA_DECODE_KERNEL_CUH
#define YK_KERNELS_CUDA_DECODE_KERNEL_CUH

#include "kernels/cuda/common/activation.cuh"
#include "kernels/cuda/decode/attention.cuh"
#include "kernels/cuda/decode/products.cuh"
#include "kernels/cuda/ptx/clock.cuh"

namespace yk_decode {

/* The residual of the row in shared memory, in the activation type. Only the lane that has a chunk of x reads and
 * writes that chunk of the residual. */
template <typename T> struct residual_row {
  using chunk_elements = yk_cuda::vec<T, CHUNK>;
  chunk_elements *chunks;
  int n_chunks;

  __device__ __forceinline__ void load(const void *row) const
  {
#pragma unroll 1
    for (int i = threadIdx.x; i < n_chunks; i += THREADS) chunks[i] = static_cast<const chunk_elements *>(row)[i];
  }

  /* Adds alpha times added to chunk i. added becomes the residual times the norm's weights, without the factor of the
   * norm, which is applied to the results of the GEMM. Returns the sum of squares of the residual. */
  __device__ __forceinline__ float add_and_norm(int i, float (&added)[CHUNK], float alpha, const uint4 &norm_w) const
  {
    const chunk_elements w = *reinterpret_cast<const chunk_elements *>(&norm_w);
    chunk_elements chunk = chunks[i];
    float squares = 0.0f;
#pragma unroll
    for (int j = 0; j < CHUNK; j++) {
      chunk.at[j] = yk_cuda::from_float<T>(fmaf(alpha, added[j], yk_cuda::to_float(chunk.at[j])));
      const float x = yk_cuda::to_float(chunk.at[j]);
      squares = fmaf(x, x, squares);
      added[j] = x * yk_cuda::to_float(w.at[j]);
    }
    chunks[i] = chunk;
    return squares;
  }
};

/* sums += the elements of a chunk. */
__device__ __forceinline__ void add_chunk(const uint4 &chunk, float (&sums)[CHUNK])
{
  const float unit = __uint_as_float(static_cast<uint32_t>(exponent_of(chunk)) << 23) * 0x1p-30f;
  int m[CHUNK];
  integers_of(chunk, m);
#pragma unroll
  for (int i = 0; i < CHUNK; i++) sums[i] = fmaf(unit, static_cast<float>(m[i]), sums[i]);
}

/* The beginning of a part of a layer, in a timed step. Thread block 0 stands for all. */
__device__ __forceinline__ void stamp(const params &p, int layer, int part)
{
  if (p.call.stamps && blockIdx.x == 0 && threadIdx.x == 0)
    p.call.stamps[layer * YK_DECODE_N_PARTS + part] = static_cast<int64_t>(yk_ptx::nanoseconds());
}

/* A GEMM: its input, K tiles of the input, and panels of the thread block. */
struct gemm_work {
  /* With norm_w, the row of each rank is added to the residual, and the input is the residual's norm; otherwise it is
   * the row. A row of NULL adds nothing. */
  const uint4 *row;
  const void *norm_w;
  int n_tiles, n_panels;
  int layer, part; /* of the stamp when the input is complete; part -1: none */
};

/* sums += the chunks of the ranks from 1 on, for lanes with is_valid. Called by all lanes. from: the chunk of rank 0;
 * chunk: an earlier load of the chunk of rank 1. */
__device__ __forceinline__ void add_other_ranks(const params &p, packet_reader<true> &reader, const uint4 *from,
                                                bool is_valid, uint32_t layer, uint4 chunk, float (&sums)[CHUNK])
{
#pragma unroll 1
  for (int rank = 1; rank < p.shape.n_ranks; rank++) {
    from += p.exchange.row_chunks;
    if (is_valid) await_chunk(reader, from, rank == p.shape.rank ? NO_RANK : rank, layer, chunk);
    __syncwarp();
    add_chunk(chunk, sums);
    chunk.x = ~layer; /* nothing of the next rank is loaded */
  }
}

/* sums = the warp's K tiles of the input times the thread block's panels. A warp receives and prepares its own K tiles,
 * one pass after the other, and multiplies each pass while packets of later passes are in flight. squares[warp] = the
 * warp's part of the residual's sum of squares. layer: of the row. */
template <yk_dtype DTYPE, bool SHARED, typename T>
__device__ __forceinline__ void multiply_row(const params &p, packet_reader<SHARED> &reader, const gemm_work &gemm,
                                             const residual_row<T> &residual, uint32_t layer, unit_ring &ring,
                                             const x_tiles &x, float *squares, float *sums)
{
  constexpr int N = 3; /* passes whose packets are in flight together */
  const int warp = threadIdx.x / WARP, n_chunks = gemm.n_tiles * CHUNK_LANES;
  const int n_tiles = (gemm.n_tiles - warp + WARPS - 1) / WARPS;        /* of the warp */
  const int first_rank = gemm.norm_w && p.shape.rank > 0 ? 0 : NO_RANK; /* of the row's chunks that are awaited first */
  uint4 packets[N] = {};
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; i++)
    if (gemm.row && chunk_of_pass(i) < n_chunks) packets[i] = load_chunk<SHARED>(gemm.row + chunk_of_pass(i));
#pragma unroll 1
  for (int i = 0; PASS_TILES * i < n_tiles; i++) {
    const int chunk = chunk_of_pass(i), later = chunk_of_pass(i + N);
    const bool is_valid = chunk < n_chunks;
    uint4 w = make_uint4(0, 0, 0, 0), other = w;
    if (gemm.norm_w && is_valid) w = static_cast<const uint4 *>(gemm.norm_w)[chunk];
    if constexpr (SHARED)
      if (gemm.norm_w && gemm.row && is_valid) other = load_chunk<true>(gemm.row + p.exchange.row_chunks + chunk);
    if (gemm.row && is_valid) await_chunk(reader, gemm.row + chunk, first_rank, layer, packets[0]);
    __syncwarp(); /* lanes continue together; all have read x of the pass before */
    if (gemm.norm_w) {
      float elements[CHUNK] = {};
      if (gemm.row && is_valid) add_chunk(packets[0], elements);
      if constexpr (SHARED)
        if (gemm.row) add_other_ranks(p, reader, gemm.row + chunk, is_valid, layer, other, elements);
      if (is_valid) sum += residual.add_and_norm(chunk, elements, p.shape.alpha, w);
      __syncwarp();
      store_chunk(elements, x);
    } else {
      store_chunk(packets[0], x);
    }
    __syncwarp();
#pragma unroll
    for (int j = 0; j + 1 < N; j++) packets[j] = packets[j + 1];
    packets[N - 1] = {};
    if (gemm.row && later < n_chunks) packets[N - 1] = load_chunk<SHARED>(gemm.row + later);
    if (i == 0 && gemm.part >= 0) stamp(p, gemm.layer, gemm.part);
    multiply_panels<DTYPE>(ring, gemm.n_panels, min(n_tiles - PASS_TILES * i, PASS_TILES), i == 0, x, sums);
  }
  if (n_tiles <= 0) clear_sums(sums, gemm.n_panels);
  if (!gemm.norm_w) return;
  sum = yk_cuda::warp_sum(sum);
  if (threadIdx.x % WARP == 0) squares[warp] = sum;
}

/* The factor of the norm, from the warps' sums of squares; called by whole warps. */
__device__ __forceinline__ float norm_factor(const params &p, const float *squares)
{
  float sum = squares[threadIdx.x % WARPS];
#pragma unroll
  for (int offset = 1; offset < WARPS; offset *= 2) sum += __shfl_xor_sync(yk_cuda::ALL_LANES, sum, offset);
  return rsqrtf(fmaf(sum, p.per_element, p.shape.norm_eps));
}

/* Sends the columns of the thread block's panels, whose partial sums are in shared memory: qkv in pairs, other rows in
 * chunks. With gate and up a panel has 8 gates and their 8 ups. squares: of the residual whose norm is the input; NULL:
 * the input is no norm. */
template <typename T, bool SHARED>
__device__ __forceinline__ void send_columns(const params &p, const float *sums, int gemm, const panel_range &range,
                                             const void *bias, const float *squares, uint32_t layer)
{
  const bool is_gated = gemm == YK_DECODE_GATE_UP;
  const int shift = is_gated ? 3 : 4, columns = 1 << shift, n = range.count * columns;
  static_assert(PANEL_COLUMNS == 16 && CHUNK == 8, "columns of a panel");
  uint4 *to = p.exchange_memory + p.exchange.of_gemm[gemm];
#pragma unroll 1
  for (int first = threadIdx.x / WARP * WARP; first < n; first += THREADS) { /* whole warps */
    const float factor = squares ? norm_factor(p, squares) : 1.0f;
    const int i = first + threadIdx.x % WARP, panel = i >> shift, column = i & (columns - 1);
    const int place = range.first * columns + i;
    float v = 0.0f;
    if (i < n) {
      v = factor * sum_of_warps(sums, panel, column);
      if (bias) v += yk_cuda::to_float(static_cast<const T *>(bias)[place]);
      if (is_gated) {
        float up = factor * sum_of_warps(sums, panel, columns + column);
        if (bias) up += yk_cuda::to_float(static_cast<const T *>(bias)[p.shape.ffn + place]);
        v = yk_cuda::gated(p.shape.activation, v, up);
      }
    }
    if (gemm == YK_DECODE_QKV) {
      const float next = __shfl_down_sync(yk_cuda::ALL_LANES, v, 1);
      if (i < n && i % 2 == 0) send(reinterpret_cast<uint2 *>(to) + place / 2, yk_ptx::round_pair<T>(v, next), layer);
      continue;
    }
    float largest = fabsf(v);
#pragma unroll
    for (int offset = 1; offset < CHUNK; offset *= 2)
      largest = yk_ptx::max_or_nan(largest, __shfl_xor_sync(yk_cuda::ALL_LANES, largest, offset));
    const int exponent = exponent_of(largest), m = integer_of(v, exponent);
    const int next = __shfl_down_sync(yk_cuda::ALL_LANES, m, 1);
    uint4 packet;
    packet.x = word_of(m, next) | low_bits_of(i % CHUNK / 2, exponent, layer); /* word i % CHUNK / 2 of even lanes */
    packet.y = __shfl_down_sync(yk_cuda::ALL_LANES, packet.x, 2);
    packet.z = __shfl_down_sync(yk_cuda::ALL_LANES, packet.x, 4);
    packet.w = __shfl_down_sync(yk_cuda::ALL_LANES, packet.x, 6);
    if (i >= n || i % CHUNK != 0) continue;
    if (!SHARED || is_gated) {
      yk_ptx::store_relaxed_gpu128(to + place / CHUNK, packet);
      continue;
    }
    const int at = p.exchange.of_gemm[gemm] + p.shape.rank * p.exchange.row_chunks + place / CHUNK;
#pragma unroll 1
    for (int rank = 0; rank < p.shape.n_ranks; rank++)
      yk_ptx::store_relaxed_sys128(static_cast<uint4 *>(p.call.exchange[rank]) + at, packet);
  }
}

/* The part that a GEMM is. Attention or a sum of ranks follows all but gate and up. */
__device__ __forceinline__ int part_of_gemm(int gemm)
{
  static_assert(YK_DECODE_PART_QKV == 0 && YK_DECODE_PART_O == 2 && YK_DECODE_PART_GATE_UP == 4 &&
                    YK_DECODE_PART_DOWN == 5,
                "parts of GEMMs");
  return gemm == YK_DECODE_DOWN ? YK_DECODE_PART_DOWN : 2 * gemm;
}

/* Initialises the thread block's shared memory, except rings and units. */
__device__ __forceinline__ void load_shared(const params &p, char *shared, const attention_share &share)
{
  panel_range *ranges = reinterpret_cast<panel_range *>(shared + p.shared.ranges);
  if (threadIdx.x < YK_DECODE_N_GEMMS)
    ranges[threadIdx.x] = panel_range::of(p.n_panels[threadIdx.x], blockIdx.x, p.n_blocks);
  const uint32_t *layers = reinterpret_cast<const uint32_t *>(p.call.layers);
  uint32_t *to = reinterpret_cast<uint32_t *>(shared + p.shared.layers);
  const int n_words = p.shape.n_layers * static_cast<int>(sizeof(yk_decode_weights) / sizeof(uint32_t));
  for (int i = threadIdx.x; i < n_words; i += BLOCK_THREADS) to[i] = layers[i];
  float *angles = reinterpret_cast<float *>(shared + p.shared.angles);
  const float *rope = p.call.rope + static_cast<int64_t>(*p.call.position) * HEAD_DIM;
  if (threadIdx.x < HEAD_DIM) angles[threadIdx.x] = rope[threadIdx.x];
  int32_t *pages = reinterpret_cast<int32_t *>(shared + p.shared.pages);
  if (static_cast<int>(threadIdx.x) < share.n_pages)
    pages[threadIdx.x] = p.call.block_table[share.first_page + threadIdx.x];
  const uint32_t barriers = yk_ptx::shared_address(shared + p.shared.barriers);
  for (int i = threadIdx.x; i < 2 * WARPS * p.slots; i += BLOCK_THREADS) yk_ptx::mbarrier_init(barriers + i * 8, 1);
  yk_ptx::fence_mbarrier_init();
}

/* Counts the units of each warp from the panel ranges in shared memory. */
__device__ __forceinline__ void count_units(const params &p, char *shared, const attention_share &share)
{
  const panel_range *ranges = reinterpret_cast<const panel_range *>(shared + p.shared.ranges);
  const int warp = threadIdx.x;
  if (warp >= WARPS) return;
  layer_units &units = reinterpret_cast<layer_units *>(shared + p.shared.units)[warp];
  int n = 0;
  for (int i = 0; i < YK_DECODE_N_GEMMS; i++) {
    units.begin[i] = n;
    units.tiles[i] = max((p.n_tiles[i] - warp + WARPS - 1) / WARPS, 0);
    n += (ranges[i].count + UNIT_PANELS - 1) / UNIT_PANELS * units.tiles[i];
    if (i != YK_DECODE_QKV) continue;
    units.pages = n;
    if (warp < min(share.n_pages, ATTENTION_WARPS))
      n += (share.n_pages - warp + ATTENTION_WARPS - 1) / ATTENTION_WARPS * (2 * PAGE_UNITS);
  }
  units.end = n;
}

/* Writes the residual, its final norm, and the counter of layers for the next launch. Called by block 0. */
template <typename T>
__device__ __forceinline__ void finish(const params &p, const residual_row<T> &residual, float factor, uint32_t tag)
{
  if (threadIdx.x == 0) *reinterpret_cast<uint32_t *>(p.exchange_memory) = tag;
#pragma unroll 1
  for (int i = threadIdx.x; i < residual.n_chunks; i += THREADS) {
    const auto chunk = residual.chunks[i];
#pragma unroll 1
    for (int j = 0; j < CHUNK; j++) {
      const int at = i * CHUNK + j;
      static_cast<T *>(p.call.residual)[at] = chunk.at[j];
      if (!p.call.final_norm_w) continue;
      const float w = yk_cuda::to_float(static_cast<const T *>(p.call.final_norm_w)[at]);
      const float x = yk_cuda::rounded<T>(yk_cuda::to_float(chunk.at[j]) * factor);
      static_cast<T *>(p.call.y)[at] = yk_cuda::from_float<T>(x * w);
    }
  }
}

template <yk_dtype DTYPE, bool SHARED>
__global__ void __launch_bounds__(BLOCK_THREADS, 1) decode_layers(const __grid_constant__ params p)
{
  using T = std::conditional_t<DTYPE == YK_F16, __half, __nv_bfloat16>;
  extern __shared__ __align__(128) char shared[];
  const int n_tokens = *p.call.kv_tokens;
  const attention_share share = attention_share::of(p, blockIdx.x, n_tokens);
  uint32_t tag = *reinterpret_cast<uint32_t *>(p.exchange_memory); /* the number of the layer in packets */
  load_shared(p, shared, share);
  __syncthreads();
  count_units(p, shared, share);
  __syncthreads();

  const uint32_t base = yk_ptx::shared_address(shared);
  if (threadIdx.x >= THREADS) {
    yk_ptx::lower_registers<PRODUCER_REGISTERS>();
    produce_units(p, shared);
    return;
  }
  yk_ptx::raise_registers<REGISTERS>();
  unit_ring ring = {p, ring_memory::of(p, base, threadIdx.x / WARP), {}};
  const uint32_t first_tile = threadIdx.x / WARP * PASS_TILES;
  const x_tiles x = {base + p.shared.x + first_tile * X_TILE_BYTES,
                     base + p.shared.x_scales + first_tile * static_cast<uint32_t>(sizeof(x_scale))};
  float *squares = reinterpret_cast<float *>(shared + p.shared.squares);
  const attention_state attention = {p, shared, share, n_tokens};
  const residual_row<T> residual = {
      reinterpret_cast<typename residual_row<T>::chunk_elements *>(shared + p.shared.residual), p.shape.hidden / CHUNK};
  packet_reader<SHARED> reader = {p.call.wait};
  residual.load(p.call.residual);
  sync_warps();
#pragma unroll 1
  for (int layer = 0;; layer++) {
    const bool is_end = layer == p.shape.n_layers; /* block 0 alone receives the last row, as if for a further layer */
    if (is_end && blockIdx.x > 0) return;
    const yk_decode_weights &w =
        reinterpret_cast<const yk_decode_weights *>(shared + p.shared.layers)[is_end ? 0 : layer];
    /* One copy of the machine code for all GEMMs: instructions that run once a layer take several cycles each. */
#pragma unroll 1
    for (int gemm = 0; gemm < YK_DECODE_N_GEMMS; gemm++) {
      const panel_range range = reinterpret_cast<const panel_range *>(shared + p.shared.ranges)[gemm];
      const uint4 *row = p.exchange_memory + p.exchange.input_of[gemm];
      const void *norm_w = gemm == YK_DECODE_QKV ? w.input_norm_w : gemm == YK_DECODE_GATE_UP ? w.post_norm_w : nullptr;
      const gemm_work work = {layer + gemm > 0 ? row : nullptr, norm_w, p.n_tiles[gemm],
                              is_end ? 0 : range.count,         layer,  is_end ? -1 : part_of_gemm(gemm)};
      /* The buffer that the GEMM before last has used: all warps have read it before the last GEMM's barrier. */
      float *sums = reinterpret_cast<float *>(shared + p.shared.sums[gemm % 2]);
      multiply_row<DTYPE>(p, reader, work, residual, tag, ring, x, squares, sums);
      sync_warps();
      if (is_end) {
        finish(p, residual, norm_factor(p, squares), tag);
        return;
      }
      if (gemm == YK_DECODE_QKV) tag++;
      send_columns<T, SHARED>(p, sums, gemm, range, w.bias[gemm], norm_w ? squares : nullptr, tag);
      if (gemm != YK_DECODE_GATE_UP) stamp(p, layer, part_of_gemm(gemm) + 1);
      if (gemm == YK_DECODE_QKV && share.kv_head >= 0) attend<T>(reader, attention, w, ring, tag);
    }
  }
}

} // namespace yk_decode

#endif
