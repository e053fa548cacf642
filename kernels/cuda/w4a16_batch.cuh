/* w4a16_batch.cuh - products of up to 32 tokens on Hopper, where memory is the bound and x is too much to stay.
 *
 * A unit is 16 columns: the rows of one matrix instruction. A cluster of blocks takes a range of units, each block a part
 * of their inputs: so that a block needs a part of x only, and partial sums stay within the cluster, going from one
 * shared memory to another. A block's stages, each the units' weights of one K tile (a bulk copy) and its x (tensor map,
 * 128-byte swizzle, zeros past the edges), go through a ring. Its eight multiplying warps are teams: a team takes every
 * n-th stage, its warps C units each. At the end of the inputs the teams' sums are added in shared memory, then those of
 * the cluster's blocks, each finishing a share: in an order that depends on the shapes alone. Where there are more units
 * than a block's warps hold, that is a sweep, and more follow.
 *
 * Weights do not depend on the kernel before: the first stages' are asked for before griddepcontrol.wait. The next product
 * is let in at once, and its ring fills while this one works (w4a16_internal.cuh).                                     */
#ifndef YK_KERNELS_CUDA_W4A16_BATCH_CUH
#define YK_KERNELS_CUDA_W4A16_BATCH_CUH

#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/mma.cuh"
#include "kernels/cuda/ptx/target.cuh"
#include "kernels/cuda/ring.cuh"
#include "kernels/cuda/w4a16_internal.cuh"
#include "kernels/cuda/w4a16_raw.cuh"
#include "kernels/cuda/w4a16_sums.cuh"

namespace w4a16 {

constexpr int BATCH_STAGES = 16; /* at most */
using batch_ring = yk_cuda::stage_ring<BATCH_STAGES>;

/* Of two warpgroups that are alone on their multiprocessor: three units' sums, of a group and of all inputs, need more
 * than half of the registers. */
constexpr int BATCH_ALONE_REGISTERS = 112, BATCH_ALONE_CONSUMER_REGISTERS = 152;
static_assert(3 * BATCH_ALONE_REGISTERS >= TURN_PRODUCER_REGISTERS + 2 * BATCH_ALONE_CONSUMER_REGISTERS,
              "what they have");

struct batch_params {
  const uint8_t *packed;
  results out;
  int k_tiles, n_units;
  cluster_units units;
  int stages;             /* a multiple of the teams */
  int team_size, n_teams; /* warps of a team: 1, 2, 4 or 8; teams of a block */
  int sweep_units;        /* of a team's warps */
};

__host__ __device__ constexpr int stage_x_bytes(int tokens)
{
  return tokens * TILE_K * 2;
}

__host__ __device__ constexpr int stage_bytes_of(int tokens, int units, int unit_bytes)
{
  return stage_x_bytes(tokens) + units * unit_bytes;
}

/* Sums of so many units. */
__host__ __device__ constexpr int unit_sums_bytes(int tokens, int units)
{
  return units * UNIT_COLUMNS * tokens * 4;
}

/* Addresses in shared memory. A sweep's sums lie where the ring is, empty then; those that the cluster's blocks send have
 * places of their own, two sweeps' in turn: to ask whether they may be sent took a microsecond. */
struct batch_memory {
  uint32_t x, weights, sums, received;
  uint32_t barriers;  /* of the ring */
  uint32_t ring_free; /* the sweep before is done with the ring */
  uint32_t received_full;
};

constexpr int BATCH_BARRIERS = batch_ring::BARRIERS + 3;

template <int GROUPS, int N, int C>
__device__ __forceinline__ batch_memory memory_of_block(const batch_params &p, uint32_t memory, uint32_t barriers)
{
  batch_memory s;
  s.x = memory;
  s.weights = memory + p.stages * stage_x_bytes(N);
  s.sums = memory;
  s.received = memory + p.stages * stage_bytes_of(N, p.sweep_units, unit_bytes_of(GROUPS));
  s.barriers = barriers;
  s.ring_free = barriers + batch_ring::BARRIERS * 8;
  s.received_full = s.ring_free + 8;
  return s;
}

__device__ __forceinline__ void init_barriers(const batch_params &p, const batch_memory &s)
{
  batch_ring(0, s.barriers, p.stages, 0).init(1, p.team_size);
  mbarrier_init(s.ring_free, 1);
  mbarrier_init(s.received_full, 1);
  mbarrier_init(s.received_full + 8, 1);
  fence_mbarrier_init();
}

/* ---- Copies into the block ---------------------------------------------------------------------------------------- */

template <int GROUPS, int N>
__device__ __forceinline__ void produce_weights(const batch_params &p, const batch_memory &s, const block_work &w)
{
  batch_ring r(s.weights, s.barriers, p.stages, p.sweep_units * unit_bytes_of(GROUPS));
  int sweep = 0;
  r.start_producing();
  int64_t k_tile_bytes = static_cast<int64_t>(p.n_units) * unit_bytes_of(GROUPS);
#pragma unroll 1
  for (int unit = w.unit; unit < w.unit_end; unit += p.sweep_units, sweep++) {
    int bytes = min(p.sweep_units, w.unit_end - unit) * unit_bytes_of(GROUPS);
    const uint8_t *from = p.packed + w.first * k_tile_bytes + static_cast<int64_t>(unit) * unit_bytes_of(GROUPS);
    if (sweep > 0) mbarrier_wait_asm(s.ring_free, (sweep - 1) % 2);
#pragma unroll 1
    for (int tile = 0; tile < w.tiles; tile++, from += k_tile_bytes) {
      mbarrier_wait_asm(r.empty(), r.at.phase);
      mbarrier_arrive_expect(r.full(), bytes + stage_x_bytes(N));
      bulk_copy(r.data(), from, bytes, r.full());
      r.advance();
    }
  }
}

/* A half of each stage's x: 64 inputs of all tokens. */
template <int N>
__device__ __forceinline__ void produce_x(const CUtensorMap *map, const batch_params &p, const batch_memory &s,
                                          const block_work &w, int half)
{
  batch_ring r(s.x, s.barriers, p.stages, stage_x_bytes(N));
  int sweep = 0;
  r.start_producing();
  wait_for_previous_kernel();
#pragma unroll 1
  for (int unit = w.unit; unit < w.unit_end; unit += p.sweep_units, sweep++) {
    if (sweep > 0) mbarrier_wait_asm(s.ring_free, (sweep - 1) % 2);
#pragma unroll 1
    for (int tile = 0; tile < w.tiles; tile++) {
      mbarrier_wait_asm(r.empty(), r.at.phase);
      tensor_copy(r.data() + half * (N * 128), map, (w.first + tile) * TILE_K + half * 64, 0, r.full());
      r.advance();
    }
  }
}

/* ---- Products ------------------------------------------------------------------------------------------------------ */

/* Whether nibbles go into the products as they are: that saves instructions for each unit, but takes a product a step for the
 * sums of x. */
__host__ __device__ constexpr bool takes_raw(int tokens, int warp_units)
{
  return tokens == 8 && warp_units > 1;
}

/* sum += 128 inputs of C units by N tokens. units: the first unit. x: this lane's row of the first matrices of a half;
 * rows are swizzled, 16-byte pieces permuted within their 128 bytes. A group's sums have registers of their own and are
 * scaled in float32, which takes fewer instructions than scaling the weights. */
template <yk_dtype DTYPE, int GROUPS, int N, int C>
__device__ __forceinline__ void multiply_tile(uint32_t units, uint32_t x, int lane, float (&sum)[C][N / 8][4])
{
  constexpr int GROUP_STEPS = 8 / GROUPS, BLOCKS = N / 8;
  constexpr bool RAW = takes_raw(N, C);
  using raw = raw_weights<DTYPE>;
  const uint32_t ones[4] = {raw::ONE, raw::UPPER_ONE, raw::ONE, raw::UPPER_ONE};
  uint4 words[C];
  uint2 scale_words[C];
  dequant<DTYPE> scales[C];
  uint32_t b[BLOCKS][4];
  float part[C][BLOCKS][4], x_sum[BLOCKS][4];
#pragma unroll
  for (int step = 0; step < 8; step++) {
#pragma unroll
    for (int c = 0; c < C; c++) {
      uint32_t unit = units + c * unit_bytes_of(GROUPS);
      if (step % 4 == 0) words[c] = load_shared16(unit + step / 4 * UNIT_HALF_BYTES + lane * 16);
      if (step % GROUP_STEPS) continue;
      scale_words[c] = load_shared8(unit + UNIT_NIBBLE_BYTES + step / GROUP_STEPS * UNIT_SCALE_BYTES + lane / 4 * 8);
      if constexpr (!RAW) scales[c].load(scale_words[c]);
    }
    if (step % GROUP_STEPS == 0) {
#pragma unroll
      for (int i = 0; i < BLOCKS * 4; i++) {
        x_sum[i / 4][i % 4] = 0.0f;
#pragma unroll
        for (int c = 0; c < C; c++) part[c][i / 4][i % 4] = 0.0f;
      }
    }
    if (step % 2 == 0) {
#pragma unroll
      for (int t = 0; t < BLOCKS; t++) ldmatrix_x4(b[t], (step % 4 ? x ^ 64 : x) + step / 4 * (N * 128) + t * 1024);
    }
    if constexpr (RAW) {
#pragma unroll
      for (int t = 0; t < BLOCKS; t++) mma_step<DTYPE>(x_sum[t], ones, b[t][step % 2 * 2], b[t][step % 2 * 2 + 1]);
    }
#pragma unroll
    for (int c = 0; c < C; c++) {
      uint32_t a[4];
      if constexpr (RAW)
        raw::expand(word_at(words[c], step % 4), a);
      else
        scales[c].expand_unscaled(word_at(words[c], step % 4), a);
#pragma unroll
      for (int t = 0; t < BLOCKS; t++) mma_step<DTYPE>(part[c][t], a, b[t][step % 2 * 2], b[t][step % 2 * 2 + 1]);
      if ((step + 1) % GROUP_STEPS) continue;
      if constexpr (RAW) {
        raw w;
        w.load(scale_words[c]);
#pragma unroll
        for (int i = 0; i < BLOCKS * 4; i++)
          sum[c][i / 4][i % 4] =
              fmaf(w.scale[i % 4 / 2], fmaf(w.offset[i % 4 / 2], x_sum[i / 4][i % 4], part[c][i / 4][i % 4]),
                   sum[c][i / 4][i % 4]);
      } else {
#pragma unroll
        for (int i = 0; i < BLOCKS * 4; i++)
          sum[c][i / 4][i % 4] = fmaf(scales[c].scale_of(i % 4 / 2), part[c][i / 4][i % 4], sum[c][i / 4][i % 4]);
      }
    }
  }
}

/* ---- Results ------------------------------------------------------------------------------------------------------- */

/* Add up sweep number `sweep`, which began at unit0. An item is what one lane holds of a unit by 8 tokens. */
template <yk_dtype DTYPE, int N, int C>
__device__ __forceinline__ void finish_sweep(const batch_params &p, const batch_memory &s, const block_work &w,
                                             int sweep, int unit0, const float (&sum)[C][N / 8][4])
{
  constexpr int UNIT_ITEMS = N / 8 * 32;
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int items = p.sweep_units * UNIT_ITEMS, share = w.share_of(items);
  int n_units = min(p.sweep_units, w.unit_end - unit0);
  uint32_t received = s.received + sweep % 2 * items * 16, received_full = s.received_full + sweep % 2 * 8;
  auto finish = [&](int item, float4 v) {
    int unit = item / UNIT_ITEMS;
    if (unit < n_units)
      store_sums<DTYPE>(p.out, unit0 + unit, item % 32 / 4, item / 32 % (N / 8) * 8 + item % 4 * 2, v);
  };
  if (w.n_ranks > 1 && threadIdx.x == 0) mbarrier_arrive_expect(received_full, items * 16);
  sync_multipliers(); /* the ring is empty, and nobody reads it */
#pragma unroll
  for (int c = 0; c < C; c++) {
#pragma unroll
    for (int t = 0; t < N / 8; t++)
      store_shared_sums(s.sums + (((warp * C + c) * (N / 8) + t) * 32 + lane) * 16, sum[c][t]);
  }
  sync_multipliers();
  for (int item = threadIdx.x; item < items; item += MULTIPLIERS * 32) {
    float4 v = load_sums(s.sums + item * 16);
    for (int team = 1; team < p.n_teams; team++) add_sums(v, load_sums(s.sums + (team * items + item) * 16));
    if (w.n_ranks > 1) {
      int to = item >= share;
      store_async_remote16(received + (static_cast<int>(w.rank) * share + item - to * share) * 16, received_full,
                           static_cast<uint32_t>(to), v);
    } else {
      finish(item, v);
    }
  }
  if (w.n_ranks > 1) {
    mbarrier_wait_asm(received_full, sweep / 2 % 2);
    for (int i = threadIdx.x; i < share; i += MULTIPLIERS * 32) {
      float4 v = load_sums(received + i * 16);
      add_sums(v, load_sums(received + (share + i) * 16));
      finish(static_cast<int>(w.rank) * share + i, v);
    }
  }
  if (unit0 + p.sweep_units >= w.unit_end) return;
  fence_async_shared(); /* before copies into the ring */
  sync_multipliers();
  if (threadIdx.x == 0) mbarrier_arrive(s.ring_free);
}

/* ---- The kernel ---------------------------------------------------------------------------------------------------- */

template <yk_dtype DTYPE, int GROUPS, int N, int C>
__device__ __forceinline__ void multiply_units(const batch_params &p, const batch_memory &s, const block_work &w)
{
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int team = warp / p.team_size, member = warp % p.team_size;
  uint32_t x = s.x + lane % 8 * 128 + ((lane / 8) ^ (lane % 8)) * 16;
  uint32_t units = member * C * unit_bytes_of(GROUPS);
  wait_for_previous_kernel();
  batch_ring r(s.weights, s.barriers, p.stages, p.sweep_units * unit_bytes_of(GROUPS));
  r.at.stage = team;
  int ahead = team; /* K tiles of the sweep before this team's next */
  for (int unit = w.unit, sweep = 0; unit < w.unit_end; unit += p.sweep_units, sweep++) {
    float sum[C][N / 8][4] = {};
#pragma unroll 1
    for (; ahead < w.tiles; ahead += p.n_teams) {
      mbarrier_wait_asm(r.full(), r.at.phase);
      if (member * C < w.unit_end - unit)
        multiply_tile<DTYPE, GROUPS, N, C>(r.data() + units, x + r.at.stage * stage_x_bytes(N), lane, sum);
      __syncwarp();
      if (lane == 0) mbarrier_arrive(r.empty());
      r.at.advance_by(p.n_teams, p.stages);
    }
    ahead -= w.tiles;
    if constexpr (takes_raw(N, C)) {
#pragma unroll
      for (int i = 0; i < C * (N / 8); i++) raw_weights<DTYPE>::to_results(sum[i / (N / 8)][i % (N / 8)]);
    }
    finish_sweep<DTYPE, N, C>(p, s, w, sweep, unit, sum);
  }
}

template <yk_dtype DTYPE, int GROUPS, int N, int C, place PLACE>
__global__ void __maxnreg__(PLACE == place::ALONE ? BATCH_ALONE_REGISTERS : TURN_REGISTERS)
    batch_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ batch_params p)
{
#ifdef YK_HAVE_SM90A
  extern __shared__ __align__(1024) uint8_t shared[];
  __shared__ uint64_t barriers[BATCH_BARRIERS];
  uint32_t memory = shared_address(shared);
  uint32_t barrier = shared_address(barriers);
  begin_block(&map, [&] { init_barriers(p, memory_of_block<GROUPS, N, C>(p, memory, barrier)); });
  constexpr int REGISTERS = PLACE == place::ALONE ? BATCH_ALONE_CONSUMER_REGISTERS : TURN_CONSUMER_REGISTERS;
  divide_work<REGISTERS>(
      [&](int producer) {
        batch_memory s = memory_of_block<GROUPS, N, C>(p, memory, barrier);
        block_work w = work_of_block(p.units, p.k_tiles);
        if (producer == 0)
          produce_weights<GROUPS, N>(p, s, w);
        else if (producer <= 2)
          produce_x<N>(&map, p, s, w, producer - 1);
      },
      [&] {
        multiply_units<DTYPE, GROUPS, N, C>(p, memory_of_block<GROUPS, N, C>(p, memory, barrier),
                                            work_of_block(p.units, p.k_tiles));
      });
#endif
}

/* One compiled kernel and what the host needs to choose it. */
struct batch_variant {
  int tokens, warp_units;
  place where;
  double tile_us;         /* a warp's time for a K tile, fitted together with the other costs of a plan */
  const void *kernels[3]; /* for 1, 2 and 4 groups a tile */
};

variant_list<batch_variant> batch_variants_f16();
variant_list<batch_variant> batch_variants_bf16();

template <yk_dtype DTYPE, int N, int C, place PLACE> batch_variant batch_variant_of(double tile_us)
{
  return {N,
          C,
          PLACE,
          tile_us,
          {reinterpret_cast<const void *>(batch_kernel<DTYPE, 1, N, C, PLACE>),
           reinterpret_cast<const void *>(batch_kernel<DTYPE, 2, N, C, PLACE>),
           reinterpret_cast<const void *>(batch_kernel<DTYPE, 4, N, C, PLACE>)}};
}

template <yk_dtype DTYPE> variant_list<batch_variant> batch_variant_table()
{
  static const batch_variant table[] = {
      batch_variant_of<DTYPE, 8, 1, place::SHARED>(0.330),  batch_variant_of<DTYPE, 8, 2, place::SHARED>(0.458),
      batch_variant_of<DTYPE, 8, 3, place::SHARED>(0.470),  batch_variant_of<DTYPE, 16, 1, place::SHARED>(0.338),
      batch_variant_of<DTYPE, 16, 2, place::SHARED>(0.558), batch_variant_of<DTYPE, 16, 3, place::ALONE>(0.507),
      batch_variant_of<DTYPE, 24, 2, place::SHARED>(0.747), batch_variant_of<DTYPE, 24, 2, place::ALONE>(0.660),
      batch_variant_of<DTYPE, 32, 1, place::SHARED>(0.448)};
  return list_of(table);
}

} // namespace w4a16

#endif
