/* attention_step.cuh - one step of attention for bench_attention, of random data on the device. */
#ifndef YK_BENCH_ATTENTION_STEP_CUH
#define YK_BENCH_ATTENTION_STEP_CUH

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_bf16.h>

#include "bench/gpu_timing.cuh"
#include "kernels/cuda/attention/attention.h"
#include "kernels/cuda/common/kv_codes.cuh"

namespace attention {

using namespace bench;

constexpr int PAGE = YK_KV_BLOCK_TOKENS;

struct shape {
  std::string name;
  yk_head_layout heads;
  yk_dtype dtype;
  int window;
  std::vector<int> rows, kv; /* of each sequence */
  yk_kv_format format = YK_KV_ACT;
};

/* Bytes of K or V of one token. */
inline size_t head_bytes(const shape &s)
{
  return static_cast<size_t>(yk_kv_page_bytes(s.format, s.dtype, s.heads.head_dim)) / PAGE;
}

inline int total_rows(const shape &s)
{
  int n = 0;
  for (int r : s.rows) n += r;
  return n;
}

inline int n_blocks_of(const shape &s)
{
  int n = 1;
  for (int t : s.kv) n += (t + PAGE - 1) / PAGE;
  return n;
}

inline std::vector<int> spread_lengths(int n, int low, int high, unsigned seed)
{
  std::mt19937 rng(seed);
  std::vector<int> v;
  for (int i = 0; i < n; i++) v.push_back(low + static_cast<int>(rng() % static_cast<unsigned>(high - low + 1)));
  return v;
}

inline yk_head_layout plain_heads(int n_q, int n_kv, int hd)
{
  return {n_q, n_kv, hd, n_q / n_kv, 0, 0, false};
}

inline yk_head_layout gated_heads(int n_q, int n_kv, int hd)
{
  return {n_q, n_kv, hd, n_q / n_kv, 0, 0, true};
}

inline shape decode(const std::string &name, yk_head_layout h, yk_dtype dtype, int window, std::vector<int> kv)
{
  return {name, h, dtype, window, std::vector<int>(kv.size(), 1), kv, YK_KV_ACT};
}

/* ---- one step on the device ---- */

__device__ inline float uniform(uint64_t i, unsigned seed)
{
  uint64_t x = i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
  x ^= x >> 31, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 29, x *= 0x94d049bb133111ebull, x ^= x >> 32;
  return static_cast<float>(x & 0xffffff) / 8388608.0f - 1.0f;
}

template <typename T> __global__ void fill(T *dst, size_t n, unsigned seed, float scale)
{
  for (size_t i = blockIdx.x * size_t{blockDim.x} + threadIdx.x; i < n; i += size_t{gridDim.x} * blockDim.x)
    dst[i] = static_cast<T>(uniform(i, seed) * scale);
}

/* Random codes except for the NaNs of FP8. Token scales are within a factor of 8 of each other. One thread block per
 * page. */
__global__ void fill_codes(char *pages, int hd, unsigned seed, float scale)
{
  uint8_t *page = reinterpret_cast<uint8_t *>(pages) + int64_t{blockIdx.x} * PAGE * (hd + 4);
  const uint64_t first = uint64_t{blockIdx.x} * PAGE * (hd + 1);
  for (int i = threadIdx.x; i < PAGE * hd; i += blockDim.x) {
    const int code = static_cast<int>((uniform(first + i, seed) + 1.0f) * 128.0f) & 0xff;
    page[i] = (code & 0x7f) == 0x7f ? 0 : static_cast<uint8_t>(code);
  }
  float *scales = reinterpret_cast<float *>(page + PAGE * hd);
  if (threadIdx.x < PAGE) scales[threadIdx.x] = scale * exp2f(1.5f * uniform(first + PAGE * hd + threadIdx.x, seed));
}

struct step {
  shape s;
  yk_batch batch;
  std::vector<yk_kv_layer> layers;
  void *qkv, *y;
  std::vector<void *> owned;
  size_t y_elements, layer_bytes;

  void *allocate(size_t n_bytes)
  {
    void *p;
    CUDA_OK(cudaMalloc(&p, n_bytes + 256));
    owned.push_back(p);
    return p;
  }

  int32_t *upload(const std::vector<int32_t> &v)
  {
    void *p = allocate(v.size() * 4);
    CUDA_OK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
    return static_cast<int32_t *>(p);
  }

  template <typename T> void fill_all(unsigned seed)
  {
    const size_t n_qkv = static_cast<size_t>(total_rows(s) * yk_head_layout_width(&s.heads));
    fill<T><<<1024, 256>>>(static_cast<T *>(qkv), n_qkv, seed, 2.0f);
    if (s.format != YK_KV_ACT) return fill_all_codes(seed);
    for (size_t i = 0; i < layers.size(); i++) {
      fill<T><<<1024, 256>>>(static_cast<T *>(layers[i].k), layer_bytes / 2, seed + 10 * static_cast<unsigned>(i) + 1,
                             2.0f);
      fill<T><<<1024, 256>>>(static_cast<T *>(layers[i].v), layer_bytes / 2, seed + 10 * static_cast<unsigned>(i) + 2,
                             1.0f);
    }
    CUDA_OK(cudaDeviceSynchronize());
  }

  void fill_all_codes(unsigned seed)
  {
    const unsigned n_pages = static_cast<unsigned>(n_blocks_of(s) * s.heads.n_kv_heads);
    const float scale = s.format == YK_KV_INT8 ? 1.0f / 127.0f : 1.0f / 448.0f;
    for (size_t i = 0; i < layers.size(); i++) {
      yk_kv_layer &kv = layers[i];
      const unsigned of_layer = seed + 10 * static_cast<unsigned>(i);
      fill_codes<<<n_pages, 256>>>(static_cast<char *>(kv.k), s.heads.head_dim, of_layer + 1, 2.0f * scale);
      fill_codes<<<n_pages, 256>>>(static_cast<char *>(kv.v), s.heads.head_dim, of_layer + 2, scale);
    }
    CUDA_OK(cudaDeviceSynchronize());
  }

  step(const shape &of, int n_layers, unsigned seed) : s(of)
  {
    std::mt19937 rng(seed);
    const int n_seqs = static_cast<int>(s.kv.size()), n_rows = total_rows(s), n_blocks = n_blocks_of(s);
    int stride = 1;
    for (int t : s.kv) stride = std::max(stride, (t + PAGE - 1) / PAGE);
    std::vector<int32_t> physical(n_blocks), starts = {0}, seq_of_row, tables(static_cast<size_t>(n_seqs) * stride, -1);
    for (int i = 0; i < n_blocks; i++) physical[i] = i;
    std::shuffle(physical.begin(), physical.end(), rng);
    batch = {};
    for (int i = 0, next = 0; i < n_seqs; i++) {
      for (int j = 0; j < (s.kv[i] + PAGE - 1) / PAGE; j++)
        tables[static_cast<size_t>(i) * stride + j] = physical[next++];
      for (int j = 0; j < s.rows[i]; j++) seq_of_row.push_back(i);
      starts.push_back(starts.back() + s.rows[i]);
      batch.max_rows_per_seq = std::max(batch.max_rows_per_seq, s.rows[i]);
      batch.max_kv_tokens = std::max(batch.max_kv_tokens, s.kv[i]);
    }
    batch.n_tokens = n_rows;
    batch.n_seqs = n_seqs;
    batch.block_table_stride = stride;
    batch.row_starts = upload(starts);
    batch.seq_of_row = upload(seq_of_row);
    batch.kv_tokens = upload(s.kv);
    batch.block_tables = upload(tables);
    const size_t n_heads = static_cast<size_t>(n_blocks) * PAGE * s.heads.n_kv_heads;
    layer_bytes = n_heads * head_bytes(s);
    yk_kv_layer kv = {};
    kv.format = s.format;
    if (s.format != YK_KV_ACT) {
      const size_t staging_bytes = n_heads * s.heads.head_dim * 2;
      kv.k_staging = allocate(staging_bytes);
      kv.v_staging = allocate(staging_bytes);
      for (void *staging : {kv.k_staging, kv.v_staging}) CUDA_OK(cudaMemset(staging, 0, staging_bytes));
    }
    for (int i = 0; i < n_layers; i++) {
      kv.k = allocate(layer_bytes);
      kv.v = allocate(layer_bytes);
      layers.push_back(kv);
    }
    qkv = allocate(static_cast<size_t>(n_rows * yk_head_layout_width(&s.heads)) * 2);
    y_elements = static_cast<size_t>(n_rows) * s.heads.n_q_heads * s.heads.head_dim;
    y = allocate(y_elements * 2);
    if (s.dtype == YK_F16)
      fill_all<__half>(seed);
    else
      fill_all<__nv_bfloat16>(seed);
  }

  ~step()
  {
    for (void *p : owned) cudaFree(p);
  }

  yk_attention_args args(int layer) const
  {
    yk_attention_args a = {};
    a.y = y;
    a.qkv = qkv;
    a.heads = s.heads;
    a.kv = layers[static_cast<size_t>(layer) % layers.size()];
    a.scale = 1.0f / sqrtf(static_cast<float>(s.heads.head_dim));
    a.window_tokens = s.window;
    a.batch = &batch;
    return a;
  }
};

struct machine {
  yk_cuda_attention attn;
  cudaStream_t stream;
  void *workspace;
  yk_kv_format format; /* of the cache, in every check and timing */
};

inline void run(const machine &m, const step &st, int layer)
{
  yk_err err = YK_ERR_INIT;
  const yk_attention_args a = st.args(layer);
  bench::check(yk_cuda_attention_run(&m.attn, &a, st.s.dtype, m.stream, &err), err);
}

} // namespace attention

#endif
