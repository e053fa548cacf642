/* w4a16_decode.cuh - products of up to 8 tokens on Hopper, where memory is the bound.
 *
 * A unit is 16 columns: the rows of one matrix instruction. A block takes whole units over all of its inputs; its eight
 * multiplying warps take a K tile each in turn, so that nothing is exchanged but through shared memory at the end of a
 * sweep of C units. Two blocks of a cluster cut the inputs further where that is estimated to be
 * faster, and send their sums into each other's shared memory. Sums are added warp by warp, then block by block:
 * the order depends on the shapes alone.
 *
 * A ring of stages, each a unit by up to eight K tiles, is filled by four more warps, a tensor copy each in turn. That
 * begins before griddepcontrol.wait, since weights do not depend on the kernel before; the next product is let in at once,
 * and its ring fills while this one works (w4a16_internal.cuh). All of x comes after the wait and stays.              */
#ifndef YK_KERNELS_CUDA_W4A16_DECODE_CUH
#define YK_KERNELS_CUDA_W4A16_DECODE_CUH

#include "kernels/cuda/w4a16_async.cuh"
#include "kernels/cuda/w4a16_internal.cuh"
#include "kernels/cuda/w4a16_mma.cuh"
#include "kernels/cuda/w4a16_raw.cuh"
#include "kernels/cuda/w4a16_sums.cuh"

namespace w4a16 {

constexpr int DECODE_STAGES = 16; /* at most */
constexpr int UNIT_SUM_BYTES = UNIT_COLUMNS * DECODE_TOKENS * 4;
constexpr int X_TILE_BYTES = TILE_K * 2; /* a token's part of 128 inputs */
constexpr int X_PAD_BYTES = 16;          /* between tokens, against bank conflicts */

struct decode_params {
  const void *x;
  results out;
  int k;
  int k_tiles;
  cluster_units units;
  int stage_tiles; /* K tiles of a stage, at most MULTIPLIERS */
  int stages;
  int x_pitch; /* bytes from token to token */
};

/* Tensor copies want 128 bytes' alignment. */
__host__ __device__ constexpr int stage_bytes_of(int stage_tiles, int groups)
{
  return (stage_tiles * unit_bytes_of(groups) + 127) / 128 * 128;
}

/* Addresses in shared memory. */
struct decode_memory {
  uint32_t weights, sums, received, x;
  uint32_t full, empty, x_full, received_full; /* barriers */
};

constexpr int DECODE_BARRIERS = 2 * DECODE_STAGES + 3;

/* Sums of a sweep of C units: of every multiplying warp; of the cluster's other blocks, two sweeps in turn. */
__host__ __device__ constexpr int sums_bytes(int c)
{
  return MULTIPLIERS * c * UNIT_SUM_BYTES;
}

__host__ __device__ constexpr int received_bytes(int c)
{
  return 2 * c * UNIT_SUM_BYTES;
}

template <int GROUPS, int C>
__device__ __forceinline__ decode_memory memory_of_block(const decode_params &p, uint32_t memory, uint32_t barriers)
{
  decode_memory s;
  s.weights = memory;
  s.sums = s.weights + p.stages * stage_bytes_of(p.stage_tiles, GROUPS);
  s.received = s.sums + sums_bytes(C);
  s.x = s.received + received_bytes(C);
  s.full = barriers;
  s.empty = barriers + DECODE_STAGES * 8;
  s.x_full = barriers + DECODE_STAGES * 16;
  s.received_full = s.x_full + 8;
  return s;
}

__device__ __forceinline__ void init_barriers(const decode_params &p, const decode_memory &s)
{
  for (int i = 0; i < p.stages; i++) {
    barrier_init(s.full + i * 8, 1);
    barrier_init(s.empty + i * 8, MULTIPLIERS);
  }
  barrier_init(s.x_full, MULTIPLIERS);
  barrier_init(s.received_full, 1);
  barrier_init(s.received_full + 8, 1);
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

/* ---- Copies into the block ---------------------------------------------------------------------------------------- */

__device__ __forceinline__ void copy_units(uint32_t to, const CUtensorMap *map, int unit, int tile, uint32_t barrier)
{
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
               "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
               "l"(map), "r"(0), "r"(unit), "r"(tile), "r"(barrier)
               : "memory");
}

/* The weights of every stage whose turn it is for this producer. One lane. */
template <int GROUPS, int C>
__device__ __forceinline__ void produce(const CUtensorMap *map, const decode_params &p, const decode_memory &s,
                                        const block_work &w, int producer)
{
  int stage = 0, phase = 1; /* an empty stage: the phase before the first */
  int turn = 0;
#pragma unroll 1
  for (int sweep = w.unit; sweep < w.unit_end; sweep += C) {
#pragma unroll 1
    for (int tile = 0; tile < w.tiles; tile += p.stage_tiles) {
#pragma unroll 1
      for (int unit = sweep; unit < min(sweep + C, w.unit_end); unit++, turn++) {
        if (turn % PRODUCERS == producer) {
          barrier_wait(s.empty + stage * 8, phase);
          barrier_expect(s.full + stage * 8, p.stage_tiles * unit_bytes_of(GROUPS));
          copy_units(s.weights + stage * stage_bytes_of(p.stage_tiles, GROUPS), map, unit, w.first + tile,
                     s.full + stage * 8);
        }
        if (++stage == p.stages) {
          stage = 0;
          phase ^= 1;
        }
      }
    }
  }
}

/* This block's inputs of one token, by one lane of the token's warp; each warp arrives once. */
__device__ __forceinline__ void fetch_x(const decode_params &p, const decode_memory &s, const block_work &w, int token)
{
  int bytes = token < p.out.m ? (min(p.k, (w.first + w.tiles) * TILE_K) - w.first * TILE_K) * 2 : 0;
  barrier_expect(s.x_full, bytes);
  if (bytes > 0)
    copy_bulk(s.x + token * p.x_pitch,
              static_cast<const uint8_t *>(p.x) + (static_cast<int64_t>(token) * p.k + w.first * TILE_K) * 2, bytes,
              s.x_full);
}

/* Inputs past the last, up to a whole K tile, are zero. */
__device__ __forceinline__ void clear_x_tail(const decode_params &p, const decode_memory &s, const block_work &w)
{
  if (p.k % TILE_K == 0) return;
  int from = (p.k - w.first * TILE_K) * 2, to = w.tiles * X_TILE_BYTES;
  for (int token = threadIdx.x; token < p.out.m; token += MULTIPLIERS * 32)
    for (int at = from; at < to; at += 16) store_shared16(s.x + token * p.x_pitch + at, make_uint4(0, 0, 0, 0));
  sync_multipliers();
}

/* ---- Products ------------------------------------------------------------------------------------------------------ */

/* The stages that a warp is about to use, one a unit of the sweep: this lane's places in them, and the barriers that
 * give them back. Units past the last repeat what is there. */
template <int C> struct unit_stages {
  uint32_t words[C], scales[C], empty[C];
};

/* Wait for the next stage of each unit. words, scales: this lane's places in stage 0. */
template <int GROUPS, int C>
__device__ __forceinline__ void await_stages(const decode_params &p, const decode_memory &s, uint32_t words,
                                             uint32_t scales, int n_units, int &stage, int &phase,
                                             unit_stages<C> &stages)
{
  int stage_bytes = stage_bytes_of(p.stage_tiles, GROUPS);
  uint32_t full[C];
  int phases[C];
#pragma unroll
  for (int c = 0; c < C; c++) {
    if (c == 0 || c < n_units) {
      full[c] = s.full + stage * 8;
      phases[c] = phase;
      stages.words[c] = words + stage * stage_bytes;
      stages.scales[c] = scales + stage * stage_bytes;
      stages.empty[c] = s.empty + stage * 8;
      if (++stage == p.stages) {
        stage = 0;
        phase ^= 1;
      }
    } else {
      full[c] = full[0];
      phases[c] = phases[0];
    }
  }
  barriers_wait<C>(full, phases);
}

template <int C> __device__ __forceinline__ void release_stages(const unit_stages<C> &stages, int n_units, int lane)
{
  __syncwarp();
  if (lane == 0) {
#pragma unroll
    for (int c = 0; c < C; c++)
      if (c < n_units) barrier_arrive(stages.empty[c]);
  }
}

/* sum += 128 inputs of C units by 8 tokens. x: this lane's row of the K tile. */
template <yk_dtype DTYPE, int GROUPS, int C>
__device__ __forceinline__ void multiply_tile(const unit_stages<C> &stages, uint32_t x, float (&sum)[C][4])
{
  constexpr int GROUP_STEPS = 8 / GROUPS;
  constexpr int CHAINS = C <= 2 && GROUPS == 1 ? 2 : 1; /* few products in a row: two sums in turn, for their latency */
  const uint32_t ones[4] = {raw_weights<DTYPE>::ONE, raw_weights<DTYPE>::UPPER_ONE, raw_weights<DTYPE>::ONE,
                            raw_weights<DTYPE>::UPPER_ONE};
  float part[CHAINS][C][4], x_sum[CHAINS][4];
  uint4 words[C];
#pragma unroll
  for (int pair = 0; pair < 4; pair++) {
    if (pair % 2 == 0) {
#pragma unroll
      for (int c = 0; c < C; c++) words[c] = load_shared16(stages.words[c] + pair / 2 * UNIT_HALF_BYTES);
    }
    uint32_t b[4];
    load_matrices(b, x + pair * 64);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int step = pair * 2 + i;
      if (step % GROUP_STEPS == 0) {
#pragma unroll
        for (int j = 0; j < 4; j++) {
#pragma unroll
          for (int chain = 0; chain < CHAINS; chain++) {
            x_sum[chain][j] = 0.0f;
#pragma unroll
            for (int c = 0; c < C; c++) part[chain][c][j] = 0.0f;
          }
        }
      }
      mma_step<DTYPE>(x_sum[step % CHAINS], ones, b[i * 2], b[i * 2 + 1]);
#pragma unroll
      for (int c = 0; c < C; c++) {
        uint32_t a[4];
        raw_weights<DTYPE>::expand(word_at(words[c], step % 4), a);
        mma_step<DTYPE>(part[step % CHAINS][c], a, b[i * 2], b[i * 2 + 1]);
      }
      if ((step + 1) % GROUP_STEPS) continue;
      if constexpr (CHAINS == 2) {
#pragma unroll
        for (int j = 0; j < 4; j++) x_sum[0][j] += x_sum[1][j];
      }
#pragma unroll
      for (int c = 0; c < C; c++) {
        raw_weights<DTYPE> w;
        w.load(load_shared8(stages.scales[c] + step / GROUP_STEPS * UNIT_SCALE_BYTES));
#pragma unroll
        for (int j = 0; j < 4; j++) {
          float total = fmaf(w.offset[j / 2], x_sum[0][j], part[0][c][j]);
          if constexpr (CHAINS == 2) total += part[CHAINS - 1][c][j];
          sum[c][j] = fmaf(w.scale[j / 2], total, sum[c][j]);
        }
      }
    }
  }
}

/* ---- Results ------------------------------------------------------------------------------------------------------- */

/* Add up sweep number `sweep`: the warps' sums in order, then those of the cluster's blocks in order, each block
 * finishing its share. An item is what one lane holds of one unit. */
template <yk_dtype DTYPE, int C>
__device__ __forceinline__ void finish_sweep(const decode_params &p, const decode_memory &s, const block_work &w,
                                             int sweep, const float (&sum)[C][4])
{
  constexpr uint32_t ITEMS = C * 32;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int unit0 = w.unit + sweep * C;
  uint32_t n_units = min(C, w.unit_end - unit0);
  uint32_t share = w.share_of(ITEMS), received = s.received + sweep % 2 * ITEMS * 16;
  uint32_t received_full = s.received_full + sweep % 2 * 8;
  if (sweep > 0) sync_multipliers(); /* the sweep before has been added up */
#pragma unroll
  for (int c = 0; c < C; c++) store_shared_sums(s.sums + (warp * ITEMS + c * 32 + lane) * 16, sum[c]);
  if (w.n_ranks > 1 && threadIdx.x == 0) barrier_expect(received_full, ITEMS * 16);
  sync_multipliers();
  for (uint32_t item = threadIdx.x; item < ITEMS; item += MULTIPLIERS * 32) {
    float4 v = load_sums(s.sums + item * 16);
#pragma unroll
    for (int other = 1; other < MULTIPLIERS; other++) add_sums(v, load_sums(s.sums + (other * ITEMS + item) * 16));
    uint32_t unit = item / 32, to = item >= share;
    if (w.n_ranks > 1)
      send_sums(received + (w.rank * share + item - to * share) * 16, received_full, to, v);
    else if (unit < n_units)
      store_sums<DTYPE>(p.out, unit0 + unit, item % 32 / 4, item % 4 * 2, v);
  }
  if (w.n_ranks == 1) return;
  barrier_wait(received_full, sweep / 2 % 2);
  for (uint32_t i = threadIdx.x; i < share; i += MULTIPLIERS * 32) {
    uint32_t item = w.rank * share + i, unit = item / 32;
    float4 v = load_sums(received + i * 16);
    add_sums(v, load_sums(received + (share + i) * 16));
    if (unit < n_units) store_sums<DTYPE>(p.out, unit0 + unit, item % 32 / 4, item % 4 * 2, v);
  }
}

/* ---- The kernel ---------------------------------------------------------------------------------------------------- */

template <yk_dtype DTYPE, int GROUPS, int C>
__device__ __forceinline__ void multiply_units(const decode_params &p, const decode_memory &s, const block_work &w)
{
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  uint32_t words = s.weights + warp * unit_bytes_of(GROUPS) + lane * 16;
  uint32_t scales = s.weights + warp * unit_bytes_of(GROUPS) + UNIT_NIBBLE_BYTES + lane / 4 * 8;
  int token = lane % 8 < p.out.m ? lane % 8 : 0; /* sums of tokens past the last are not kept */
  uint32_t x = s.x + token * p.x_pitch + warp * X_TILE_BYTES + lane / 8 * 16;
  clear_x_tail(p, s, w);
  wait_for_previous_kernel();
  if (lane == 0) fetch_x(p, s, w, warp);
  __syncwarp();
  barrier_wait(s.x_full, 0);
  int stage = 0, phase = 0;
  for (int sweep = 0; w.unit + sweep * C < w.unit_end; sweep++) {
    int n_units = min(C, w.unit_end - w.unit - sweep * C);
    float sum[C][4] = {};
    unit_stages<C> stages;
#pragma unroll
    for (int c = 0; c < C; c++) {
      stages.words[c] = words;
      stages.scales[c] = scales;
      stages.empty[c] = s.empty;
    }
    for (int tile = 0; tile < w.tiles; tile += p.stage_tiles) {
      await_stages<GROUPS, C>(p, s, words, scales, n_units, stage, phase, stages);
      if (warp < p.stage_tiles && tile + warp < w.tiles)
        multiply_tile<DTYPE, GROUPS, C>(stages, x + tile * X_TILE_BYTES, sum);
      release_stages<C>(stages, n_units, lane);
    }
#pragma unroll
    for (int c = 0; c < C; c++) raw_weights<DTYPE>::to_results(sum[c]);
    finish_sweep<DTYPE, C>(p, s, w, sweep, sum);
  }
}

static_assert(MULTIPLIERS == DECODE_TOKENS, "each multiplying warp fetches one token's inputs");

template <yk_dtype DTYPE, int GROUPS, int C>
__global__ void __maxnreg__(TURN_REGISTERS)
    decode_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ decode_params p)
{
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(128) uint8_t shared[];
  __shared__ uint64_t barriers[DECODE_BARRIERS];
  uint32_t memory = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  uint32_t barrier = static_cast<uint32_t>(__cvta_generic_to_shared(barriers));
  decode_memory s = memory_of_block<GROUPS, C>(p, memory, barrier);
  begin_block(&map, [&] { init_barriers(p, s); });
  block_work w = work_of_block(p.units, p.k_tiles);
  divide_work<TURN_CONSUMER_REGISTERS>([&](int producer) { produce<GROUPS, C>(&map, p, s, w, producer); },
                                       [&] { multiply_units<DTYPE, GROUPS, C>(p, s, w); });
#endif
}

/* One compiled kernel and what the host needs to choose it. */
struct decode_variant {
  static constexpr place where = place::SHARED;
  int units;      /* of a sweep */
  double tile_us; /* a sweep's time for eight K tiles, one a warp, fitted together with the other costs of a plan */
  const void *kernels[3]; /* for 1, 2 and 4 groups a tile */
};

variant_list<decode_variant> decode_variants_f16();
variant_list<decode_variant> decode_variants_bf16();

template <yk_dtype DTYPE, int C> decode_variant decode_variant_of(double tile_us)
{
  return {C,
          tile_us,
          {reinterpret_cast<const void *>(decode_kernel<DTYPE, 1, C>),
           reinterpret_cast<const void *>(decode_kernel<DTYPE, 2, C>),
           reinterpret_cast<const void *>(decode_kernel<DTYPE, 4, C>)}};
}

template <yk_dtype DTYPE> variant_list<decode_variant> decode_variant_table()
{
  /* The second by hand, a third above its fit: so qkv of one token streams its inputs, which is faster. */
  static const decode_variant table[] = {decode_variant_of<DTYPE, 2>(0.505), decode_variant_of<DTYPE, 3>(0.885),
                                         decode_variant_of<DTYPE, 4>(1.176)};
  return list_of(table);
}

} // namespace w4a16

#endif
