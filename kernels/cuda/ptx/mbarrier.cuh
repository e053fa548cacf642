/* mbarrier.cuh - barriers in shared memory that threads arrive at and asynchronous copies complete on.
 *
 * A barrier counts arrivals, and bytes that it was told to expect, down to zero; then its phase is over and the next
 * one begins. Who waits names the parity of the phase that shall be over: 0 for the first, 1 for the second, 0 for
 * the third. A wait for parity 1 at a fresh barrier returns at once. */
#ifndef YK_KERNELS_CUDA_PTX_MBARRIER_CUH
#define YK_KERNELS_CUDA_PTX_MBARRIER_CUH

#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_ptx {

/* A barrier is named by its address in shared memory, or by a pointer to it. */
struct mbarrier {
  uint32_t address;

  __device__ __forceinline__ mbarrier(uint32_t address) : address(address)
  {
  }
  __device__ __forceinline__ mbarrier(uint64_t *pointer) : address(shared_address(pointer))
  {
  }
};

/* arrivals: of each phase. */
__device__ __forceinline__ void mbarrier_init(mbarrier barrier, int arrivals)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address), "r"(arrivals));
}

/* After mbarrier_init by the same thread: the copy engine and the other blocks of the cluster see the barriers (9.0).
 */
__device__ __forceinline__ void fence_mbarrier_init()
{
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(mbarrier barrier)
{
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier.address)
               : "memory");
}

/* One arrival at the barrier that lies at the same place in the shared memory of the cluster's block `rank` (9.0). */
__device__ __forceinline__ void mbarrier_arrive_remote(mbarrier barrier, int rank)
{
  asm volatile("{\n"
               ".reg .b32 remote;\n"
               "mapa.shared::cluster.u32 remote, %0, %1;\n"
               "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
               "}" ::"r"(barrier.address),
               "r"(rank)
               : "memory");
}

/* One arrival, and so many bytes more to wait for in this phase (9.0). */
__device__ __forceinline__ void mbarrier_arrive_expect(mbarrier barrier, int n_bytes)
{
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier.address),
      "r"(n_bytes)
      : "memory");
}

/* Whether the phase of this parity is over; may pause the thread for a while before it says no. */
__device__ __forceinline__ bool mbarrier_try_wait(mbarrier barrier, uint32_t parity)
{
  uint32_t done;
#if __CUDA_ARCH__ >= 900
  asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier.address), "r"(parity)
               : "memory");
#else
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier.address), "r"(parity)
               : "memory");
#endif
  return done != 0;
}

/* The wait in two forms that the compiler treats differently: here it sees a loop, and keeps to the order of the code
 * around. */
__device__ __forceinline__ void mbarrier_wait(mbarrier barrier, uint32_t parity)
{
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

/* Here it sees one instruction, and may move what touches no memory past it (9.0). */
__device__ __forceinline__ void mbarrier_wait_asm(mbarrier barrier, uint32_t parity)
{
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra ready;\n"
               "bra again;\n"
               "ready:\n"
               "}" ::"r"(barrier.address),
               "r"(parity)
               : "memory");
}

} // namespace yk_ptx

#endif
