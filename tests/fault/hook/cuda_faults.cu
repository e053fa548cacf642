#include "fault/hook/cuda_faults.h"

#include <cstdint>

static __global__ void write_at(uintptr_t address)
{
  *reinterpret_cast<volatile int *>(address) = 1;
}

static __global__ void trap()
{
  __trap();
}

static __device__ uint64_t now_ns()
{
  uint64_t ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

static __global__ void spin(const volatile int *stop, uint64_t limit_ns)
{
  const uint64_t start_ns = now_ns();
  while (*stop == 0 && now_ns() - start_ns < limit_ns) __nanosleep(1000);
}

void cuda_fault_illegal_address(cudaStream_t stream)
{
  write_at<<<1, 1, 0, stream>>>(uintptr_t{16});
}

void cuda_fault_trap(cudaStream_t stream)
{
  trap<<<1, 1, 0, stream>>>();
}

void cuda_fault_spin(cudaStream_t stream, const volatile int *stop, double seconds)
{
  spin<<<1, 1, 0, stream>>>(stop, static_cast<uint64_t>(seconds * 1e9));
}
