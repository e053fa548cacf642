/* occupancy.cuh - shared memory and registers that a thread block of the WNA16 GEMM takes of a multiprocessor.
 *
 * If possible, a GEMM leaves half of each multiprocessor free, so that the blocks of the next GEMM in the stream
 * (programmatic dependent launch) begin there and load their first weights while this GEMM finishes. Two blocks of one
 * GEMM must not take both halves: that multiprocessor would take twice as long while another is idle, and each GEMM
 * would pass this placement on to the next. Launches therefore use two kinds of half. A block in the first half needs
 * more than half of the shared memory; a block in the second half needs more than half of the registers, by means of
 * idle warps that only hold them. Then only blocks of different kinds fit on one multiprocessor, and GEMMs take the two
 * halves alternately (turns.h).
 *
 * Registers are allocated by quarters of a multiprocessor, one for each warp scheduler: the warps of a quarter must
 * fit, not only the total. Kernels between two GEMMs (norms, RoPE, all-reduce) request the same division of shared
 * memory and cache, since a multiprocessor changes it only when it is empty. */
#ifndef YK_KERNELS_CUDA_GEMM_OCCUPANCY_CUH
#define YK_KERNELS_CUDA_GEMM_OCCUPANCY_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/gemm/tiles.h"
#include "kernels/cuda/ptx/thread_block.cuh"

namespace yk_gemm {

constexpr int SM_SHARED_BYTES = 228 * 1024, SM_REGISTERS = 64 * 1024;
/* additional memory of each block: 1 KB of the driver; barriers, aligned */
constexpr int BLOCK_SHARED_BYTES = 2 * 1024;

/* Dynamic shared memory of a block, by occupancy; in halves, by the half. */
constexpr int ALL_SHARED_BYTES = SM_SHARED_BYTES - BLOCK_SHARED_BYTES;
constexpr int MOST_SHARED_BYTES = ALL_SHARED_BYTES - 32 * 1024; /* a norm or an all-reduce fits in the remaining shared
                                                                 * memory */
constexpr int HALF_SHARED_BYTES[2] = {116 * 1024, 108 * 1024};

/* Threads of a block in each half, the idle warps of the second included. Every thread starts with HALF_REGISTERS; then
 * producer warpgroups release some to consumer warpgroups. */
constexpr int HALF_THREADS[2] = {384, 512};
constexpr int HALF_REGISTERS = 72, HALF_PRODUCER_REGISTERS = 24, HALF_CONSUMER_REGISTERS = 96;

static_assert(HALF_SHARED_BYTES[0] + HALF_SHARED_BYTES[1] + 2 * BLOCK_SHARED_BYTES <= SM_SHARED_BYTES,
              "both halves fit");
static_assert(2 * (HALF_SHARED_BYTES[0] + 1024) > SM_SHARED_BYTES, "two first halves do not");
static_assert(HALF_REGISTERS * (HALF_THREADS[0] + HALF_THREADS[1]) <= SM_REGISTERS, "both halves fit");
static_assert(2 * HALF_REGISTERS * HALF_THREADS[1] > SM_REGISTERS, "two second halves do not");

/* A warp that returns releases its registers at once, and a second block of the second half would fit then. So idle
 * warps call hold_registers, which returns when all consumer warps have called release_idle_warps. The barrier counts
 * all threads but the 128 of the producer warpgroup. */
constexpr int IDLE_WARPS_BARRIER = 15;

__device__ __forceinline__ void hold_registers()
{
  yk_ptx::named_barrier_sync(IDLE_WARPS_BARRIER, blockDim.x - 128);
}

__device__ __forceinline__ void release_idle_warps()
{
  yk_ptx::named_barrier_arrive(IDLE_WARPS_BARRIER, blockDim.x - 128);
}

/* The most dynamic shared memory that a block may take. */
inline int most_shared_bytes(occupancy taken, bool second_half)
{
  if (taken == occupancy::HALF) return HALF_SHARED_BYTES[second_half];
  return taken == occupancy::MOST ? MOST_SHARED_BYTES : ALL_SHARED_BYTES;
}

/* The dynamic shared memory that a block in a half requests when it uses `bytes`: the first half always requests its
 * maximum, which keeps a second such block away. */
inline int half_shared_bytes(bool second_half, int bytes)
{
  return second_half ? bytes : HALF_SHARED_BYTES[0];
}

/* Allows a kernel `bytes` of dynamic shared memory, and requests that all of the multiprocessor's memory be shared
 * memory: by default the driver divides shared memory and L1 cache by the needs of one kernel, and the next GEMM does
 * not fit. */
inline cudaError_t allow_shared_bytes(const void *kernel, int bytes)
{
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
}

} // namespace yk_gemm

#endif
