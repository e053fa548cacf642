/* w4a16_internal.cuh - what the files of the W4A16 products share. */
#ifndef YK_KERNELS_CUDA_W4A16_INTERNAL_CUH
#define YK_KERNELS_CUDA_W4A16_INTERNAL_CUH

#include <cuda_runtime.h>

#include "kernels/cuda/ptx/dependent_launch.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/w4a16.h"
#include "kernels/cuda/w4a16_dequant.cuh"
#include "kernels/cuda/w4a16_layout.cuh"

namespace w4a16 {

inline yk_status cuda_status(cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE, "%s: %s", what, cudaGetErrorString(error));
}

inline int64_t ceil_div(int64_t a, int64_t b)
{
  return (a + b - 1) / b;
}

/* Columns of the result. */
inline int64_t n_outputs(const yk_w4a16_desc &desc)
{
  return desc.gate_up ? desc.n / 2 : desc.n;
}

/* __fdividef: an exact division branches, which took longer than the rest of writing the results. */
__device__ __forceinline__ float silu(float gate)
{
  return __fdividef(gate, 1.0f + __expf(-gate));
}

template <yk_dtype DTYPE> __device__ __forceinline__ float load_float(const void *array, int64_t i)
{
  if constexpr (DTYPE == YK_F16) return __half2float(static_cast<const __half *>(array)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16 *>(array)[i]);
}

/* Some products leave half of each multiprocessor to the next, whose first weights arrive while they finish. Two blocks of
 * one grid must not take both halves: that multiprocessor would take twice as long while another stood idle, and each
 * grid would hand its places on to the next (a norm between two products is enough to bring that about). So in one turn
 * blocks need more than half of the shared memory; in the other more than half of the registers, by means of warps that
 * only hold them. Then only blocks of different turns fit side by side. */
constexpr int SM_SHARED_BYTES = 228 * 1024;
constexpr int BLOCK_SHARED_BYTES = 2 * 1024; /* 1 KB that the driver takes, and barriers, aligned */
constexpr int MOST_SHARED_BYTES = SM_SHARED_BYTES - BLOCK_SHARED_BYTES;
constexpr int TURN_SHARED_BYTES[2] = {116 * 1024, 108 * 1024};
constexpr int TURN_THREADS[2] = {384, 512};
constexpr int TURN_REGISTERS = 72; /* of each thread at the start, then of a producer's and a consumer's */
constexpr int TURN_PRODUCER_REGISTERS = 24, TURN_CONSUMER_REGISTERS = 96;
static_assert(TURN_SHARED_BYTES[0] + TURN_SHARED_BYTES[1] + 2 * BLOCK_SHARED_BYTES <= SM_SHARED_BYTES, "both fit");
static_assert(2 * (TURN_SHARED_BYTES[0] + 1024) > SM_SHARED_BYTES, "two of turn 0 do not");
static_assert(TURN_REGISTERS * (TURN_THREADS[0] + TURN_THREADS[1]) <= 64 * 1024, "both fit");
static_assert(2 * TURN_REGISTERS * TURN_THREADS[1] > 64 * 1024, "two of turn 1 do not");

/* A warp that returns gives its registers back at once. After attention, which has a multiprocessor's whole shared memory,
 * two blocks of turn 1 then fit: so the warps that only hold registers stay until those that multiply are done. */
__device__ __forceinline__ void hold_registers()
{
  named_barrier_sync(15, blockDim.x - 128); /* all but the producers */
}

__device__ __forceinline__ void release_holders()
{
  named_barrier_arrive(15, blockDim.x - 128);
}

constexpr int ALONE_SHARED_BYTES = MOST_SHARED_BYTES - 32 * 1024;

/* What a block takes of its multiprocessor: half, in its turn; so much that a norm or a sum fits beside it, but no other
 * product; everything. */
enum class place { SHARED, ALONE, WHOLE };

/* Registers that a thread starts with, and what a producer and a consumer have then: warpgroups trade them. */
__host__ __device__ constexpr int start_registers(int warpgroups, place where)
{
  return where == place::WHOLE ? 64 * 1024 / (128 * (warpgroups + 1)) / 8 * 8 : TURN_REGISTERS;
}

__host__ __device__ constexpr int producer_registers(place where)
{
  return where == place::WHOLE ? 40 : TURN_PRODUCER_REGISTERS;
}

__host__ __device__ constexpr int consumer_registers(int warpgroups, place where)
{
  if (where != place::WHOLE) return TURN_CONSUMER_REGISTERS;
  return warpgroups == 3 ? 152 : 232;
}

/* Dynamic shared memory that a block may take. */
inline int most_shared_bytes(place where, int turn)
{
  if (where == place::SHARED) return TURN_SHARED_BYTES[turn];
  return where == place::ALONE ? ALONE_SHARED_BYTES : MOST_SHARED_BYTES;
}

/* Shared memory of a block in its turn, which needs so many bytes of it. */
inline int turn_shared_bytes(int turn, int bytes)
{
  return turn == 0 ? TURN_SHARED_BYTES[0] : bytes;
}

/* Let a kernel have so much dynamic shared memory, out of all that a multiprocessor has: left to itself, the driver gives
 * a kernel of which one block fits no more than that takes, and the next product no room beside it. */
inline cudaError_t allow_shared_bytes(const void *kernel, int bytes)
{
  cudaError_t error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
  if (error != cudaSuccess) return error;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
}

/* The compiled kernels of one kind. A variant has `where` it runs and its `kernels`. */
template <typename VARIANT> struct variant_list {
  const VARIANT *first;
  int count;

  const VARIANT *begin() const
  {
    return first;
  }
  const VARIANT *end() const
  {
    return first + count;
  }
};

template <typename VARIANT, int N> variant_list<VARIANT> list_of(const VARIANT (&variants)[N])
{
  return {variants, N};
}

template <typename VARIANT> cudaError_t allow_shared_bytes(const variant_list<VARIANT> &variants)
{
  for (const VARIANT &v : variants) {
    for (const void *kernel : v.kernels) {
      cudaError_t error = allow_shared_bytes(kernel, most_shared_bytes(v.where, 0));
      if (error != cudaSuccess) return error;
    }
  }
  return cudaSuccess;
}

/* Launch clusters of so many blocks each, whose start overlaps the end of the kernel before. */
inline cudaError_t launch_clusters(const void *kernel, int64_t clusters, int64_t cluster, int threads, int shared_bytes,
                                   void **args, cudaStream_t stream)
{
  const yk_ptx::launch_shape shape = {dim3(static_cast<unsigned>(clusters * cluster)), threads,
                                      static_cast<size_t>(shared_bytes), static_cast<int>(cluster)};
  return yk_ptx::launch_dependent(kernel, shape, stream, args);
}

/* The mma.sync path. */
size_t mma_workspace_bytes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t mma_init();
cudaError_t mma_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                        cudaStream_t stream);

/* On Hopper two kernels. Where both may work the one with the least estimated time does: microseconds on an H200, in a row of
 * products. The estimates are the same on every machine, so that the choice is a function of the shapes. */

/* Up to 32 tokens: no workspace. */
constexpr int BATCH_TOKENS = 32;
cudaError_t batch_init();
double batch_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t batch_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                          cudaStream_t stream);

/* Any number of tokens. Its weights are rounded, the others' are not: up to UNROUNDED_TOKENS it is not asked, so that what is
 * decoded in small batches differs by the order of sums alone. */
constexpr int UNROUNDED_TOKENS = 16;
size_t wgmma_workspace_bytes(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t wgmma_init(yk_w4a16_gpu *gpu);
double wgmma_us(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, int64_t m);
cudaError_t wgmma_forward(const yk_w4a16_gpu &gpu, const yk_w4a16_desc &desc, const yk_w4a16_call &call,
                          cudaStream_t stream);

} // namespace w4a16

#endif
