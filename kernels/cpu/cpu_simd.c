/* cpu_simd.c - choice of the instruction set at run time. */
#include "kernels/cpu/cpu_simd.h"

#include <stdbool.h>
#include <string.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static bool has_avx2(void)
{
#if defined(__x86_64__)
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); /* every CPU with AVX2 has F16C too */
#else
  return false;
#endif
}

static bool has_avx512(void)
{
#if defined(__x86_64__)
  return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw");
#else
  return false;
#endif
}

static bool has_avx512vnni(void)
{
#if defined(__x86_64__)
  return has_avx512() && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

const yk_cpu_simd *yk_cpu_simd_find(const char *name)
{
  if (!strcmp(name, "avx512vnni") && has_avx512vnni()) return yk_cpu_simd_avx512vnni();
  if (!strcmp(name, "avx512") && has_avx512()) return yk_cpu_simd_avx512();
  if (!strcmp(name, "avx2") && has_avx2()) return yk_cpu_simd_avx2();
  if (!strcmp(name, "portable")) return yk_cpu_simd_portable();
  return NULL;
}

const yk_cpu_simd *yk_cpu_simd_best(void)
{
  const yk_cpu_simd *simd = yk_cpu_simd_find("avx512vnni");
  if (!simd) simd = yk_cpu_simd_find("avx512");
  if (!simd) simd = yk_cpu_simd_find("avx2");
  return simd ? simd : yk_cpu_simd_portable();
}
