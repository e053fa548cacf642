/* allreduce_p2p.cuh - the kernels of allreduce_p2p.h and what they are given. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "parallel/allreduce_p2p.h"

namespace yk_p2p_kernels {

constexpr int N_SETS = YK_P2P_SETS;
constexpr int MAX_BLOCKS = YK_P2P_BLOCKS;
constexpr int MAX_THREADS = 1024;
constexpr int MAX_PACKETS = 4;          /* packets of 16 bytes that a thread holds of a row; 1 and 2 also */
constexpr int TEAM_BLOCK_THREADS = 512; /* of a block whose threads hold several packets */
constexpr int MAX_TEAMS = 8;            /* of a block, each with a barrier of its own */
constexpr uint32_t ABSENT = 0x80000000; /* minus zero as float32; as two 16-bit values: zero, minus zero */
constexpr int LOOK_UP_EVERY = 512;      /* reads of a slot between looks at the clock and the abort flag */

/* What a block remembers from launch to launch of the same kind. */
struct block_state {
  uint32_t n_launches;
  uint32_t n_packets_used; /* of every source's slots, by the launch before */
};
static_assert(2 * MAX_BLOCKS * sizeof(block_state) == YK_P2P_STATE_BYTES, "the plan counts the counters' memory");
static_assert(TEAM_BLOCK_THREADS * MAX_PACKETS * 16 == YK_P2P_MAX_ROW_BYTES, "a team holds one row");

/* In host memory that all devices see. */
struct shared_page {
  struct {
    volatile int32_t aborted; /* by the host: this rank's kernels are to end */
    volatile int32_t failed;  /* 1: a rank was missing, 2: aborted */
    volatile int32_t missing; /* which one, -1 where not known */
    volatile uint32_t n_launches;
  } rank[YK_MAX_RANKS];
};

/* Slots on one device: [block][set][source rank][capacity] packets. */
struct slots {
  uint4 *of_rank[YK_MAX_RANKS]; /* the same array on every rank's device */
  int64_t capacity;
};

struct launch_args {
  const void *x; /* this rank's data, [n_rows, row_packets] packets, of which the last row may miss some */
  void *residual, *y;
  const void *w;
  int32_t n_rows, n_packets;
  int32_t row_packets;           /* of a row */
  int32_t team_threads;          /* set by launch: threads that take a row together */
  float alpha, eps, per_element; /* per_element: 1 / elements of a row */
  int32_t rank, n_ranks;
  slots first, second; /* data to add up; results (two-shot) */
  block_state *state;
  int32_t *dead; /* this device's word: nonzero after a failure */
  shared_page *page;
  uint64_t timeout_ns; /* UINT64_MAX: none */
};

/* x [n_rows, ..] summed over ranks; NORM: added to residual and normalised into y (w NULL: not normalised); otherwise
 * written to residual, which is then the data itself. */
template <typename T, bool NORM> cudaError_t launch(const launch_args &args, bool two_shot, cudaStream_t stream);

/* Load what launch may launch onto the current device: loading later could wait for a kernel that waits for a peer. */
template <typename T, bool NORM> cudaError_t load(int n_ranks);

} // namespace yk_p2p_kernels

#endif
