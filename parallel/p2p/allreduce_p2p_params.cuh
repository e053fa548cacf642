/* allreduce_p2p_params.cuh - the arguments of the all-reduce kernels, and the memory that the ranks share. See
 * allreduce_p2p.h. */
#ifndef YK_PARALLEL_P2P_ALLREDUCE_P2P_PARAMS_CUH
#define YK_PARALLEL_P2P_ALLREDUCE_P2P_PARAMS_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernels/device.h"
#include "kernels/experts.h"
#include "parallel/p2p/p2p_sizes.h"

namespace yk_p2p_kernels {

constexpr int N_SETS = YK_P2P_SETS;
constexpr int MAX_BLOCKS = YK_P2P_BLOCKS;
constexpr int MAX_THREADS = 1024;
constexpr int MAX_PACKETS = 4; /* packets of 16 bytes of a row per thread: 1, 2 or 4 */
/* maximum threads of a thread block; MAX_THREADS only if most_threads allows it */
constexpr int GROUP_BLOCK_THREADS = 512;
constexpr int MAX_GROUPS = 8;           /* maximum thread groups of a thread block, each with its own named barrier */
constexpr uint32_t ABSENT = 0x80000000; /* minus zero as float32; as two 16-bit values: zero, minus zero */
constexpr int POLLS_PER_CHECK = 512;    /* reads of a slot between checks of the clock and the abort flag */

static_assert(2 * MAX_BLOCKS * sizeof(uint32_t) == YK_P2P_STATE_BYTES, "the plan counts the counters' memory");
static_assert(GROUP_BLOCK_THREADS * MAX_PACKETS * 16 == YK_P2P_MAX_ROW_BYTES, "a thread group holds one row");

/* On every device, after the thread blocks' counters. */
struct device_flags {
  int32_t stopped;                    /* nonzero after a failure: no kernel waits any more */
  uint32_t n_await_launches;          /* this rank's launches of await_writes_kernel */
  uint32_t arrived[YK_P2P_MAX_RANKS]; /* on rank 0's device: launches of await_writes_kernel by each rank */
};
static_assert(sizeof(device_flags) <= YK_P2P_FLAG_BYTES, "the plan counts the flags' memory");

/* In pinned host memory, mapped into every device. */
struct host_flags {
  struct {
    volatile int32_t aborted; /* set by the host: this rank's kernels must end */
    volatile int32_t failed;  /* set by the kernels: 1: a rank was missing, 2: aborted */
    volatile int32_t missing; /* the missing rank, -1 if unknown */
  } rank[YK_P2P_MAX_RANKS];
};

/* Slots on every device: [thread block][set][source rank][capacity] packets of 16 bytes. */
struct slots {
  uint4 *of_rank[YK_P2P_MAX_RANKS]; /* the array on that rank's device */
  int64_t capacity;
};

struct launch_args {
  void *x; /* this rank's partial sums: [n_rows, row_packets] packets; the last row may be shorter */
  void *residual, *y;
  const void *w;
  int32_t n_rows, n_packets;
  int32_t row_packets;           /* packets per row */
  int32_t group_threads;         /* set by launch: threads that process a row together */
  float alpha, eps, per_element; /* per_element: 1 / elements of a row */
  bool is_max;                   /* for integers: the maximum, not the sum */
  int32_t rank, n_ranks;
  slots first, second;  /* for partial sums; for results (two-shot) */
  uint32_t *n_launches; /* [MAX_BLOCKS] number of launches of this kernel (one-shot or two-shot), by thread block */
  int32_t *stopped;     /* this device's flag */
  host_flags *flags;
  uint64_t timeout_ns; /* UINT64_MAX: none */
  bool late_next;      /* the next kernel starts only once the preceding kernel has ended: see yk_reader */
  /* The combination of experts whose result is x; y NULL: x is complete. Last member, so that the other members occupy
   * few cache lines. */
  yk_combine_args combine;
  /* For norms::BOTH: the weights of the norm of the sum over ranks, or NULL; the factor of the new residual. */
  const void *result_w;
  float gain;
};

/* The steps after the sum over ranks: none (arrays without rows); the residual add and its norm; or also a norm of the
 * sum itself, before the residual add, and a factor of the residual. */
enum class norms { NONE, RESIDUAL, BOTH };

/* Rank 0 waits for the other ranks; their earlier writes to its memory are then visible. arrived: on rank 0's
 * device. */
cudaError_t launch_await_writes(const launch_args &args, uint32_t *arrived, cudaStream_t stream);
cudaError_t load_await_writes();

} // namespace yk_p2p_kernels

#endif
