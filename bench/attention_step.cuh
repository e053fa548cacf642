/* attention_step.cuh - one step of attention for bench_attention: fresh random data on the device, and a float64
 * reference. */
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
  bool has_channels = false; /* static scales and offsets of 8-bit formats */
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
  return {name, h, dtype, window, std::vector<int>(kv.size(), 1), kv, YK_KV_ACT, false};
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

/* Fill the slots after each sequence's last token with NaN. */
template <typename T>
__global__ void poison_tails(T *kv, const int32_t *tables, int stride, const int32_t *kv_tokens, int n_kv_heads, int hd)
{
  const int seq = blockIdx.x, n = kv_tokens[seq], last = (n + PAGE - 1) / PAGE - 1;
  if (n == 0) return;
  const int64_t block = tables[int64_t{seq} * stride + last];
  for (int i = threadIdx.x; i < n_kv_heads * PAGE * hd; i += blockDim.x) {
    if (last * PAGE + i / hd % PAGE >= n) kv[block * n_kv_heads * PAGE * hd + i] = static_cast<T>(NAN);
  }
}

/* Random codes except for the NaNs of FP8. Token scales are within a factor of 8 of each other; scale 0 sets all to 1.
 * One thread block per page. */
__global__ void fill_codes(char *pages, int hd, unsigned seed, float scale)
{
  uint8_t *page = reinterpret_cast<uint8_t *>(pages) + int64_t{blockIdx.x} * PAGE * (hd + 4);
  const uint64_t first = uint64_t{blockIdx.x} * PAGE * (hd + 1);
  for (int i = threadIdx.x; i < PAGE * hd; i += blockDim.x) {
    const int code = static_cast<int>((uniform(first + i, seed) + 1.0f) * 128.0f) & 0xff;
    page[i] = (code & 0x7f) == 0x7f ? 0 : static_cast<uint8_t>(code);
  }
  float *scales = reinterpret_cast<float *>(page + PAGE * hd);
  if (threadIdx.x < PAGE)
    scales[threadIdx.x] = scale > 0 ? scale * exp2f(1.5f * uniform(first + PAGE * hd + threadIdx.x, seed)) : 1.0f;
}

/* Like poison_tails; 0x7f is a NaN of FP8. */
__global__ void poison_code_tails(char *kv, const int32_t *tables, int stride, const int32_t *kv_tokens, int n_kv_heads,
                                  int hd)
{
  const int seq = blockIdx.x, n = kv_tokens[seq], last = (n + PAGE - 1) / PAGE - 1;
  if (n == 0) return;
  char *pages = kv + int64_t{tables[int64_t{seq} * stride + last]} * n_kv_heads * PAGE * (hd + 4);
  for (int i = threadIdx.x; i < n_kv_heads * PAGE * (hd + 1); i += blockDim.x) {
    char *page = pages + i / (PAGE * (hd + 1)) * PAGE * (hd + 4);
    const int at = i % (PAGE * (hd + 1)), token = at < PAGE * hd ? at / hd : at - PAGE * hd;
    if (last * PAGE + token < n) continue;
    if (at < PAGE * hd)
      page[at] = 0x7f;
    else
      reinterpret_cast<float *>(page + PAGE * hd)[token] = NAN;
  }
}

/* An element of the cache as kernels/kv_cache.h defines it. */
template <typename T>
__device__ double cached(const yk_kv_layer &kv, bool is_key, const yk_head_layout &h, int64_t page, int token, int d)
{
  const int hd = h.head_dim;
  const void *cache = is_key ? kv.k : kv.v;
  if (kv.format == YK_KV_ACT)
    return double{static_cast<float>(static_cast<const T *>(cache)[(page * PAGE + token) * hd + d])};
  const char *bytes = static_cast<const char *>(cache) + page * PAGE * (hd + 4);
  const uint8_t code = static_cast<uint8_t>(bytes[token * hd + d]);
  double q = static_cast<int8_t>(code);
  if (kv.format == YK_KV_FP8) {
    const int exponent = code >> 3 & 15, mantissa = code & 7;
    q = exponent ? ldexp(8.0 + mantissa, exponent - 10) : ldexp(double(mantissa), -9);
    if (code & 0x80) q = -q;
  }
  const float *channels = is_key ? kv.k_channels : kv.v_channels;
  if (channels) {
    const int64_t at = page % h.n_kv_heads * hd + d;
    q = double{channels[at]} * (q - double{channels[int64_t{h.n_kv_heads} * hd + at]});
  }
  return q * double{reinterpret_cast<const float *>(bytes + PAGE * hd)[token]};
}

/* One thread block per row and head; two passes, sums in float64. */
template <typename T> __global__ void reference(const yk_attention_args a, const yk_batch b, double *out)
{
  extern __shared__ float scores[];
  __shared__ double sum;
  const yk_head_layout h = a.heads;
  const int row = blockIdx.x, head = blockIdx.y, hd = h.head_dim, seq = b.seq_of_row[row];
  const int position = b.kv_tokens[seq] - (b.row_starts[seq + 1] - row);
  const int begin = a.window_tokens > 0 ? max(0, position - a.window_tokens + 1) : 0;
  const int kv_head = (h.q_head_first + head) / h.q_per_kv - h.kv_head_first;
  const int32_t *table = b.block_tables + int64_t{seq} * b.block_table_stride;
  const int n_before = h.n_q_heads + 2 * h.n_kv_heads; /* heads of a row before its gates */
  const T *q =
      static_cast<const T *>(a.qkv) + int64_t{row} * (n_before + (h.has_gates ? h.n_q_heads : 0)) * hd + head * hd;
  const T *gates = q + n_before * hd;
  float top = -INFINITY;
  for (int t = begin + threadIdx.x; t <= position; t += blockDim.x) {
    const int64_t page = int64_t{table[t / PAGE]} * h.n_kv_heads + kv_head;
    double s = 0;
    for (int d = 0; d < hd; d++) s += double{static_cast<float>(q[d])} * cached<T>(a.kv, true, h, page, t % PAGE, d);
    scores[t - begin] = static_cast<float>(s * a.scale);
  }
  __syncthreads();
  for (int t = begin; t <= position; t++) top = fmaxf(top, scores[t - begin]);
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  double part = 0;
  for (int t = begin + threadIdx.x; t <= position; t += blockDim.x) part += exp(double{scores[t - begin] - top});
  atomicAdd(&sum, part);
  __syncthreads();
  for (int d = threadIdx.x; d < hd; d += blockDim.x) {
    double o = 0;
    for (int t = begin; t <= position; t++) {
      const int64_t page = int64_t{table[t / PAGE]} * h.n_kv_heads + kv_head;
      o += exp(double{scores[t - begin] - top}) * cached<T>(a.kv, false, h, page, t % PAGE, d);
    }
    if (h.has_gates) o /= 1 + exp(-double{static_cast<float>(gates[d])});
    out[(int64_t{row} * h.n_q_heads + head) * hd + d] = o / sum;
  }
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
      for (void *kv : {layers[i].k, layers[i].v})
        poison_tails<T><<<batch.n_seqs, 256>>>(static_cast<T *>(kv), batch.block_tables, batch.block_table_stride,
                                               batch.kv_tokens, s.heads.n_kv_heads, s.heads.head_dim);
    }
    CUDA_OK(cudaDeviceSynchronize());
  }

  /* f32 [2, n_kv_heads, head_dim]: scales near the given one, offsets of a few codes. */
  float *make_channels(unsigned seed, float scale)
  {
    const int n = s.heads.n_kv_heads * s.heads.head_dim;
    std::mt19937 rng(seed);
    std::vector<float> v(2 * static_cast<size_t>(n));
    for (int i = 0; i < n; i++) {
      v[i] = scale * (0.5f + static_cast<float>(rng() % 1000) / 1000.0f);
      v[n + i] = s.format == YK_KV_INT8 ? static_cast<float>(rng() % 41) - 20.0f : 0.0f;
    }
    void *p = allocate(v.size() * 4);
    CUDA_OK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
    return static_cast<float *>(p);
  }

  void fill_all_codes(unsigned seed)
  {
    const unsigned n_pages = static_cast<unsigned>(n_blocks_of(s) * s.heads.n_kv_heads);
    const float scale = s.format == YK_KV_INT8 ? 1.0f / 127.0f : 1.0f / 448.0f;
    for (size_t i = 0; i < layers.size(); i++) {
      yk_kv_layer &kv = layers[i];
      const unsigned of_layer = seed + 10 * static_cast<unsigned>(i);
      fill_codes<<<n_pages, 256>>>(static_cast<char *>(kv.k), s.heads.head_dim, of_layer + 1,
                                   s.has_channels ? 0.0f : 2.0f * scale);
      fill_codes<<<n_pages, 256>>>(static_cast<char *>(kv.v), s.heads.head_dim, of_layer + 2,
                                   s.has_channels ? 0.0f : scale);
      for (void *cache : {kv.k, kv.v})
        poison_code_tails<<<batch.n_seqs, 256>>>(static_cast<char *>(cache), batch.block_tables,
                                                 batch.block_table_stride, batch.kv_tokens, s.heads.n_kv_heads,
                                                 s.heads.head_dim);
      if (s.has_channels)
        kv.k_channels = make_channels(of_layer + 3, 2.0f * scale), kv.v_channels = make_channels(of_layer + 4, scale);
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
