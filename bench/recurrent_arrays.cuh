/* recurrent_arrays.cuh - device arrays of benchmarks of recurrent layers. */
#ifndef YK_BENCH_RECURRENT_ARRAYS_CUH
#define YK_BENCH_RECURRENT_ARRAYS_CUH

#include <algorithm>
#include <vector>

#include "bench/kernel_bench.cuh"
#include "kernels/device.h"

namespace bench {

template <typename T> T *device_new(size_t n)
{
  void *p;
  CUDA_OK(cudaMalloc(&p, n * sizeof(T)));
  CUDA_OK(cudaMemset(p, 0, n * sizeof(T)));
  return static_cast<T *>(p);
}

inline int32_t *send(const std::vector<int32_t> &values)
{
  int32_t *p = device_new<int32_t>(values.size());
  CUDA_OK(cudaMemcpy(p, values.data(), values.size() * sizeof(int32_t), cudaMemcpyHostToDevice));
  return p;
}

inline __global__ void fill_floats(float *dst, size_t n, float scale, float offset)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x) {
    unsigned x = (unsigned)i * 2654435761u;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15;
    dst[i] = offset + scale * ((float)(x & 0xffff) / 32768.0f - 1.0f);
  }
}

inline float *floats(size_t n, float scale, float offset)
{
  float *p = device_new<float>(n);
  fill_floats<<<256, 256>>>(p, n, scale, offset);
  return p;
}

/* A step of n_seqs sequences with the same number of rows each, which begin with the states in their slots. Adds its
 * arrays to `memory`. */
inline yk_batch even_batch(int32_t n_seqs, int32_t rows, std::vector<void *> &memory)
{
  std::vector<int32_t> starts, slots, seqs;
  for (int32_t i = 0; i <= n_seqs; i++) starts.push_back(i * rows);
  for (int32_t i = 0; i < n_seqs; i++) slots.push_back(i), seqs.insert(seqs.end(), rows, i);
  yk_batch batch = {};
  batch.n_tokens = n_seqs * rows, batch.n_seqs = n_seqs, batch.max_rows_per_seq = rows;
  batch.row_starts = send(starts), batch.seq_slots = send(slots), batch.seq_of_row = send(seqs);
  batch.state_loads = send(std::vector<int32_t>(n_seqs, YK_STATE_KEEP));
  batch.state_saves = batch.state_save_rows = send(std::vector<int32_t>(n_seqs, -1));
  batch.kv_tokens = send(std::vector<int32_t>(n_seqs, rows));
  for (const int32_t *array :
       {batch.row_starts, batch.seq_slots, batch.seq_of_row, batch.state_loads, batch.state_saves, batch.kv_tokens})
    memory.push_back(const_cast<int32_t *>(array));
  return batch;
}

/* Number of layers whose states together exceed the L2 cache, at least 2. */
inline int layers_beyond_cache(int64_t n_floats)
{
  return (int)std::max<int64_t>(2, std::min<int64_t>(48, ((int64_t)400 << 20) / (4 * n_floats) + 1));
}

} // namespace bench

#endif
