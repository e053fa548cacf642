/* prefill_wgmma_shared.cuh - the tile sizes, the shared memory and the barriers of prefill on Hopper. attention.h lists
 * the arrivals and waits of each barrier. */
#ifndef YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SHARED_CUH
#define YK_KERNELS_CUDA_ATTENTION_PREFILL_WGMMA_SHARED_CUH

#include "kernels/cuda/attention/prefill_scheduler.cuh"

namespace yk_attn {

constexpr int WGMMA_TILE_M = 128, WGMMA_TILE_N = 128; /* packed query rows of a work tile; tokens of a key tile */
constexpr int KEY_TILE_PAGES = WGMMA_TILE_N / PAGE_TOKENS;
/* K and V tiles in shared memory, in the order in which the consumers read them: as many as fit at head_dim 128. */
constexpr int KV_STAGES = 5;
constexpr int WGMMA_THREADS = 384, Q_PRODUCER_THREADS = 64;
constexpr int N_CONSUMER_WARPS = 8, N_KV_PRODUCER_WARPS = 2;

/* A tile in shared memory is [column block of 64 elements][128 rows][128 bytes], with the 128-byte swizzle. */
constexpr int COLUMN_BLOCK_BYTES = 128 * 128;
constexpr int SWIZZLE_ATOM_BYTES = 8 * 128; /* 8 rows: the unit within which the swizzle permutes */
constexpr int NO_BLOCK_STRIDE = 16;         /* for K-major descriptors, whose block stride the hardware ignores */

/* Named barriers. The ping-pong has two, one for each consumer warpgroup. */
constexpr int BARRIER_Q_PRODUCERS = 1, BARRIER_PING_PONG = 2;
constexpr int PING_PONG_THREADS = N_CONSUMER_WARPS * 32;

/* Registers per thread after setmaxnreg: the registers that the producers release, of the 168 at launch, go to the
 * consumers. */
constexpr int PRODUCER_REGISTERS = 40, CONSUMER_REGISTERS = 232;
static_assert(PRODUCER_REGISTERS + 2 * CONSUMER_REGISTERS == 3 * 168, "three warpgroups share their registers");

template <int HD> struct prefill_shared {
  static constexpr int N_COLUMN_BLOCKS = (HD + 63) / 64, TILE_BYTES = N_COLUMN_BLOCKS * COLUMN_BLOCK_BYTES;
  alignas(1024) char q[2][TILE_BYTES];
  alignas(1024) char kv[KV_STAGES][TILE_BYTES];
  uint64_t work_full[2], q_full[2], q_empty[2];
  uint64_t kv_full[KV_STAGES], kv_empty[KV_STAGES];
  uint64_t v_tail;   /* TMA has loaded a short V tile, whose tail the V producer now clears */
  work_tile work[2]; /* described by the Q producers; seq -1: no more */
};

} // namespace yk_attn

#endif
