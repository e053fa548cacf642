/* global_memory.cuh - accesses to global memory that C++ cannot express: 16 bytes in one instruction, with a memory
 * order and a scope, or with a cache hint.
 *
 * Relaxed accesses are for memory that one thread polls while others write it. Each of the four words, or of the 8-byte
 * words, is read and written atomically; the 16 bytes together need not be. The scope is the set of threads for which
 * the access is atomic: those of one GPU (gpu), or of all GPUs and the host (sys). */
#ifndef YK_KERNELS_CUDA_PTX_GLOBAL_MEMORY_CUH
#define YK_KERNELS_CUDA_PTX_GLOBAL_MEMORY_CUH

#include <cstdint>

namespace yk_ptx {

/* One store instruction: the compiler splits the assignment of a uint4 where it cannot prove the alignment. */
__device__ __forceinline__ void store_global16(void *to, uint4 v)
{
  asm volatile("st.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ uint4 load_relaxed_gpu16(const uint4 *from)
{
  uint4 v;
  asm volatile("ld.relaxed.gpu.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

/* The next eight are atomic as a whole: 8 bytes, two times 8 bytes, and 16 bytes (9.0). */
__device__ __forceinline__ uint2 load_relaxed_gpu8(const uint2 *from)
{
  uint64_t v;
  asm volatile("ld.relaxed.gpu.global.b64 %0, [%1];" : "=l"(v) : "l"(from) : "memory");
  return make_uint2(static_cast<uint32_t>(v), static_cast<uint32_t>(v >> 32));
}

__device__ __forceinline__ void store_relaxed_gpu8(uint2 *to, uint2 v)
{
  asm volatile("{\n.reg .b64 a;\nmov.b64 a, {%1, %2};\nst.relaxed.gpu.global.b64 [%0], a;\n}" ::"l"(to), "r"(v.x),
               "r"(v.y)
               : "memory");
}

__device__ __forceinline__ uint4 load_relaxed_gpu8x2(const uint4 *from)
{
  uint64_t a, b;
  asm volatile("ld.relaxed.gpu.global.v2.b64 {%0,%1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
  return make_uint4(static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
                    static_cast<uint32_t>(b >> 32));
}

__device__ __forceinline__ void store_relaxed_gpu8x2(uint4 *to, uint4 v)
{
  asm volatile("{\n"
               ".reg .b64 a, b;\n"
               "mov.b64 a, {%1, %2};\n"
               "mov.b64 b, {%3, %4};\n"
               "st.relaxed.gpu.global.v2.b64 [%0], {a, b};\n"
               "}" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint4 load_relaxed_gpu128(const uint4 *from)
{
  uint64_t a, b;
  asm volatile("{\n.reg .b128 v;\nld.relaxed.gpu.global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}"
               : "=l"(a), "=l"(b)
               : "l"(from)
               : "memory");
  return make_uint4(static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
                    static_cast<uint32_t>(b >> 32));
}

__device__ __forceinline__ uint4 load_relaxed_sys128(const uint4 *from)
{
  uint64_t a, b;
  asm volatile("{\n.reg .b128 v;\nld.relaxed.sys.global.b128 v, [%2];\nmov.b128 {%0, %1}, v;\n}"
               : "=l"(a), "=l"(b)
               : "l"(from)
               : "memory");
  return make_uint4(static_cast<uint32_t>(a), static_cast<uint32_t>(a >> 32), static_cast<uint32_t>(b),
                    static_cast<uint32_t>(b >> 32));
}

__device__ __forceinline__ void store_relaxed_sys128(uint4 *to, uint4 v)
{
  asm volatile("{\n"
               ".reg .b64 a, b;\n"
               ".reg .b128 v;\n"
               "mov.b64 a, {%1, %2};\n"
               "mov.b64 b, {%3, %4};\n"
               "mov.b128 v, {a, b};\n"
               "st.relaxed.sys.global.b128 [%0], v;\n"
               "}" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ void store_relaxed_gpu128(uint4 *to, uint4 v)
{
  asm volatile("{\n"
               ".reg .b64 a, b;\n"
               ".reg .b128 v;\n"
               "mov.b64 a, {%1, %2};\n"
               "mov.b64 b, {%3, %4};\n"
               "mov.b128 v, {a, b};\n"
               "st.relaxed.gpu.global.b128 [%0], v;\n"
               "}" ::"l"(to),
               "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint32_t load_relaxed_gpu(const uint32_t *from)
{
  uint32_t word;
  asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

__device__ __forceinline__ void store_relaxed_gpu(uint32_t *to, uint32_t word)
{
  asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

/* Stores the same word four times. */
__device__ __forceinline__ void store_relaxed_gpu16(uint4 *to, uint32_t word)
{
  asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1,%1,%1,%1};" ::"l"(to), "r"(word) : "memory");
}

__device__ __forceinline__ uint4 load_relaxed_sys16(const uint4 *from)
{
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(from)
               : "memory");
  return v;
}

__device__ __forceinline__ void store_relaxed_sys16(uint4 *to, uint4 v)
{
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

/* Stores four accumulators with all bits inverted. The assembly inverts the bits: an integer operation of C++ on
 * accumulators makes ptxas serialise the wgmma that they come from (its note C7514). */
__device__ __forceinline__ void store_inverted_relaxed_gpu16(uint4 *to, const float (&v)[4])
{
  asm volatile("{\n"
               ".reg .b32 a, b, c, d;\n"
               "not.b32 a, %1;\n"
               "not.b32 b, %2;\n"
               "not.b32 c, %3;\n"
               "not.b32 d, %4;\n"
               "st.relaxed.gpu.global.v4.b32 [%0], {a, b, c, d};\n"
               "}" ::"l"(to),
               "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
               : "memory");
}

/* Adds 1 and returns the value before. Acquire and release at GPU scope: a thread whose increment follows another
 * thread's increment of the same counter sees everything that the other thread wrote before its own. */
__device__ __forceinline__ int32_t increment_acq_rel_gpu(int32_t *counter)
{
  int32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}

/* Adds 1. A thread that loads the sum by load_acquire_gpu sees all earlier writes of this thread. */
__device__ __forceinline__ void increment_release_gpu(uint32_t *counter)
{
  asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(counter) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire_gpu(const uint32_t *from)
{
  uint32_t word;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/* A thread that acquires the stored value sees everything that the storing thread saw or wrote before its store, on any
 * GPU. */
__device__ __forceinline__ void store_release_sys(uint32_t *to, uint32_t word)
{
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(to), "r"(word) : "memory");
}

__device__ __forceinline__ uint32_t load_acquire_sys(const uint32_t *from)
{
  uint32_t word;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(word) : "l"(from) : "memory");
  return word;
}

/* Prefetch the 128 bytes around address into the L2 cache. */
__device__ __forceinline__ void prefetch_l2(const void *address)
{
  asm volatile("prefetch.global.L2 [%0];" ::"l"(address));
}

/* The same, with the hint to evict other data first. */
__device__ __forceinline__ void prefetch_l2_evict_last(const void *address)
{
  asm volatile("prefetch.global.L2::evict_last [%0];" ::"l"(address));
}

} // namespace yk_ptx

#endif
