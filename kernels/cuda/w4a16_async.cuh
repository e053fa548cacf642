/* w4a16_async.cuh - barriers in shared memory, copies that complete on them, and plain accesses by address. */
#ifndef YK_KERNELS_CUDA_W4A16_ASYNC_CUH
#define YK_KERNELS_CUDA_W4A16_ASYNC_CUH

#include <cstdint>
#include <cuda.h>

namespace w4a16 {

__device__ __forceinline__ void barrier_init(uint32_t barrier, int arrivals)
{
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}

__device__ __forceinline__ void barrier_arrive(uint32_t barrier)
{
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* One arrival of the warp at its own block's barrier, or at that of each block of its cluster. */
template <int CLUSTER> __device__ __forceinline__ void barrier_release(uint32_t barrier, int lane)
{
  if constexpr (CLUSTER == 1) {
    if (lane == 0) barrier_arrive(barrier);
  } else if (lane < CLUSTER) {
    asm volatile("{\n"
                 ".reg .b32 remote;\n"
                 "mapa.shared::cluster.u32 remote, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [remote];\n"
                 "}" ::"r"(barrier),
                 "r"(lane)
                 : "memory");
  }
}

__device__ __forceinline__ void sync_cluster()
{
  asm volatile("barrier.cluster.arrive.aligned;\nbarrier.cluster.wait.aligned;" ::: "memory");
}

__device__ __forceinline__ void barrier_expect(uint32_t barrier, int bytes)
{
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_wait(uint32_t barrier, int phase)
{
  asm volatile("{\n"
               ".reg .pred done;\n"
               "again:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra ready;\n"
               "bra again;\n"
               "ready:\n"
               "}" ::"r"(barrier),
               "r"(phase)
               : "memory");
}

__device__ __forceinline__ void copy_bulk(uint32_t to, const void *from, int bytes, uint32_t barrier)
{
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier)
               : "memory");
}

__device__ __forceinline__ void copy_tensor(uint32_t to, const CUtensorMap *map, int k, int token, uint32_t barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
               "[%4];" ::"r"(to),
               "l"(map), "r"(k), "r"(token), "r"(barrier)
               : "memory");
}

/* The same into both blocks of a cluster, at the same place and counted by each one's own barrier. */
__device__ __forceinline__ void copy_tensor_to_both(uint32_t to, const CUtensorMap *map, int k, int token,
                                                    uint32_t barrier)
{
  asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
               "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
               "l"(map), "r"(k), "r"(token), "r"(barrier), "h"(static_cast<uint16_t>(3))
               : "memory");
}

__device__ __forceinline__ uint4 load_shared16(uint32_t address)
{
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(address));
  return v;
}

__device__ __forceinline__ uint2 load_shared8(uint32_t address)
{
  uint2 v;
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address));
  return v;
}

__device__ __forceinline__ void store_shared16(uint32_t address, uint4 v)
{
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(address), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

} // namespace w4a16

#endif
