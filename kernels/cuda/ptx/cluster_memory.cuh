/* cluster_memory.cuh - reads of the shared memory of other thread blocks of the cluster (9.0). Writes of another thread
 * block are visible after a cluster_sync (thread_block.cuh); a second one keeps that thread block from ending, or
 * writing again, before all have read. */
#ifndef YK_KERNELS_CUDA_PTX_CLUSTER_MEMORY_CUH
#define YK_KERNELS_CUDA_PTX_CLUSTER_MEMORY_CUH

#include <cstdint>

namespace yk_ptx {

/* The address, for load_remote16_if, of offset `address` in the shared memory of thread block `rank` of the cluster. */
__device__ __forceinline__ uint32_t remote_address(uint32_t address, uint32_t rank)
{
  uint32_t remote;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(remote) : "r"(address), "r"(rank));
  return remote;
}

/* Loads 16 bytes if wanted, else returns zeros, without a branch. */
__device__ __forceinline__ uint4 load_remote16_if(uint32_t address, bool wanted)
{
  uint4 v = {};
  asm volatile("{\n"
               ".reg .pred p;\n"
               "setp.ne.b32 p, %5, 0;\n"
               "@p ld.shared::cluster.v4.u32 {%0,%1,%2,%3}, [%4];\n"
               "}"
               : "+r"(v.x), "+r"(v.y), "+r"(v.z), "+r"(v.w)
               : "r"(address), "r"(static_cast<int>(wanted)));
  return v;
}

} // namespace yk_ptx

#endif
