/* prefill_wgmma_shared.cuh - the tile sizes, the shared memory and the barriers of prefill on Hopper. attention.h lists
 * the arrivals and waits of each barrier. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SHARED_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SHARED_CUH

#include "kernels/cuda/attention/prefill_scheduler.cuh"

namespace yk_attn {

constexpr int WGMMA_TILE_M = MAX_SPLIT_ROWS; /* packed query rows of a work tile */
constexpr int WGMMA_THREADS = 384, Q_PRODUCER_THREADS = 64;
constexpr int N_CONSUMER_WARPS = 8, N_KV_PRODUCER_WARPS = 2;

/* Sizes that depend on head_dim. A tile in shared memory is [column block of 64 elements][rows][128 bytes], with the
 * 128-byte swizzle. At 256 the output takes half of a consumer's registers, which leaves space for the scores of 80
 * keys, and shared memory holds one tile of queries. */
template <int HD> struct prefill_tiles {
  static constexpr int TILE_N = HD > 128 ? 80 : 128; /* tokens of a key tile */
  static constexpr int KEY_TILE_PAGES = TILE_N / PAGE_TOKENS;
  /* K and V tiles in shared memory, in the order in which the consumers read them: as many as fit at 128 and at 256. */
  static constexpr int KV_STAGES = HD > 128 ? 4 : 5;
  static constexpr int Q_STAGES = HD > 128 ? 1 : 2;
  /* Whether the consumer warpgroups issue alternately. Products of heads of 256 are long enough that the softmax of one
   * warpgroup overlaps the products of the other in any case. */
  static constexpr bool PING_PONG = HD <= 128;
  /* Whether work tiles are split: partial results of heads of 256 would need more registers and a larger workspace. */
  static constexpr bool SPLITS = HD <= MAX_SPLIT_DIMS;
  static constexpr int N_COLUMN_BLOCKS = (HD + 63) / 64;
  static constexpr int Q_BLOCK_BYTES = WGMMA_TILE_M * 128, KV_BLOCK_BYTES = TILE_N * 128; /* of a column block */
};

constexpr int SWIZZLE_ATOM_BYTES = 8 * 128; /* 8 rows: the unit within which the swizzle permutes */
constexpr int NO_BLOCK_STRIDE = 16;         /* for K-major descriptors, whose block stride the hardware ignores */

/* Named barriers. The ping-pong has two, one for each consumer warpgroup. */
constexpr int BARRIER_Q_PRODUCERS = 1, BARRIER_PING_PONG = 2;
constexpr int PING_PONG_THREADS = N_CONSUMER_WARPS * 32;

/* Registers per thread after setmaxnreg: the registers that the producers release, of the 168 at launch, go to the
 * consumers. */
constexpr int PRODUCER_REGISTERS = 56, CONSUMER_REGISTERS = 224;
static_assert(PRODUCER_REGISTERS + 2 * CONSUMER_REGISTERS == 3 * 168, "three warpgroups share their registers");

template <int HD> struct prefill_shared {
  using tiles = prefill_tiles<HD>;
  alignas(1024) char q[tiles::Q_STAGES][tiles::N_COLUMN_BLOCKS * tiles::Q_BLOCK_BYTES];
  alignas(1024) char kv[tiles::KV_STAGES][tiles::N_COLUMN_BLOCKS * tiles::KV_BLOCK_BYTES];
  uint64_t work_full[2], q_full[2], q_empty[2];
  uint64_t kv_full[tiles::KV_STAGES], kv_empty[tiles::KV_STAGES];
  uint64_t v_tail;   /* TMA has loaded a short V tile, whose tail the V producer now clears */
  work_tile work[2]; /* described by the Q producers; seq -1: no more */
};

} // namespace yk_attn

#endif
