/* mbarrier.cuh - barriers in shared memory at which threads arrive and asynchronous copies complete.
 *
 * A barrier works in phases. A phase ends when the expected number of threads have arrived and all bytes that were
 * announced in the phase have been copied; the next phase then begins with the same expected number. A waiting thread
 * passes the parity of the phase whose end it waits for: 0 for the first phase, 1 for the second, 0 for the third. A
 * wait with parity 1 at a fresh barrier returns at once, as if a phase before the first one had ended. */
#ifndef YK_KERNELS_CUDA_PTX_MBARRIER_CUH
#define YK_KERNELS_CUDA_PTX_MBARRIER_CUH

#include "kernels/cuda/ptx/shared_memory.cuh"

namespace yk_ptx {

/* Created from a barrier's address in shared memory, or from a pointer to the barrier. */
struct mbarrier {
  uint32_t address;

  __device__ __forceinline__ mbarrier(uint32_t address) : address(address)
  {
  }
  __device__ __forceinline__ mbarrier(uint64_t *pointer) : address(shared_address(pointer))
  {
  }
};

/* arrivals: the number of arrivals that each phase expects. */
__device__ __forceinline__ void mbarrier_init(mbarrier barrier, int arrivals)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address), "r"(arrivals));
}

/* Called after mbarrier_init by the same thread: makes the initialised barriers visible to the copy engine and to the
 * other thread blocks of the cluster (9.0). */
__device__ __forceinline__ void fence_mbarrier_init()
{
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void mbarrier_arrive(mbarrier barrier)
{
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared::cta.b64 state, [%0];\n}" ::"r"(barrier.address)
               : "memory");
}

/* One arrival at the barrier of thread block `rank` of the cluster, at the same offset in its shared memory (9.0). */
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

/* One arrival, which also announces n_bytes of copies that the current phase must wait for (9.0). */
__device__ __forceinline__ void mbarrier_arrive_expect(mbarrier barrier, int n_bytes)
{
  asm volatile(
      "{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared::cta.b64 state, [%0], %1;\n}" ::"r"(barrier.address),
      "r"(n_bytes)
      : "memory");
}

/* Whether the phase of this parity has ended. On 9.0 the instruction may suspend the thread before it returns false. */
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

/* The same without suspension. */
__device__ __forceinline__ bool mbarrier_test_wait(mbarrier barrier, uint32_t parity)
{
  uint32_t done;
  asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
               : "=r"(done)
               : "r"(barrier.address), "r"(parity)
               : "memory");
  return done != 0;
}

/* The wait exists in two forms, because the compiler schedules the code around them differently.
 *
 * A loop in C++: the compiler sees a loop and moves no code across the wait, which the attention kernels need because
 * the order of their softmax and matrix instructions is chosen by hand. */
__device__ __forceinline__ void mbarrier_wait_loop(mbarrier barrier, uint32_t parity)
{
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

/* A loop inside one asm statement (9.0): the compiler sees one instruction and may move code that accesses no memory
 * across the wait, which the GEMM kernels leave to the compiler, such as address arithmetic and dequantisation. */
__device__ __forceinline__ void mbarrier_wait_asm_loop(mbarrier barrier, uint32_t parity)
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
