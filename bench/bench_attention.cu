/* bench_attention.cu - attention over the paged KV cache: first checked against a float64 reference, then timed.
 *
 * Check: fresh random data, physical pages shuffled, every slot of the cache that no token occupies filled with NaN,
 * the output filled with NaN; error is |y - ref| / |ref| over the whole output.
 * Time: a graph whose nodes rotate over enough copies of the cache that each finds the L2 cold; the node's time is the
 * replay divided by the number of nodes, median and range of repeats.                                                */
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <cuda_bf16.h>

#include "bench/gpu_timing.cuh"
#include "kernels/cuda/attention.h"

using namespace bench;

namespace {

constexpr int PAGE = YK_KV_BLOCK_TOKENS;

struct shape {
  std::string name;
  yk_head_layout heads;
  yk_dtype dtype;
  int window;
  std::vector<int> rows, kv; /* of each sequence */
};

int total_rows(const shape &s)
{
  int n = 0;
  for (int r : s.rows) n += r;
  return n;
}

int n_blocks_of(const shape &s)
{
  int n = 1;
  for (int t : s.kv) n += (t + PAGE - 1) / PAGE;
  return n;
}

/* ---- one step on the device ---- */

__device__ float uniform(uint64_t i, unsigned seed)
{
  uint64_t x = i * 0x9e3779b97f4a7c15ull + seed * 0xd1342543de82ef95ull;
  x ^= x >> 31, x *= 0xbf58476d1ce4e5b9ull, x ^= x >> 29, x *= 0x94d049bb133111ebull, x ^= x >> 32;
  return (float)(x & 0xffffff) / 8388608.0f - 1.0f;
}

template <typename T> __global__ void fill(T *dst, size_t n, unsigned seed, float scale)
{
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += (size_t)gridDim.x * blockDim.x)
    dst[i] = (T)(uniform(i, seed) * scale);
}

/* NaN in the slots behind each sequence's last token. */
template <typename T>
__global__ void poison_tails(T *kv, const int32_t *tables, int stride, const int32_t *kv_tokens, int n_kv_heads, int hd)
{
  const int seq = blockIdx.x, n = kv_tokens[seq], last = (n + PAGE - 1) / PAGE - 1;
  if (n == 0) return;
  const int64_t block = tables[(int64_t)seq * stride + last];
  for (int i = threadIdx.x; i < n_kv_heads * PAGE * hd; i += blockDim.x) {
    if (last * PAGE + i / hd % PAGE >= n) kv[block * n_kv_heads * PAGE * hd + i] = (T)NAN;
  }
}

/* One block per (row, head), two passes, sums in float64. */
template <typename T> __global__ void reference(const yk_attention_args a, const yk_batch b, double *out)
{
  extern __shared__ float scores[];
  __shared__ double sum;
  const yk_head_layout h = a.heads;
  const int row = blockIdx.x, head = blockIdx.y, hd = h.head_dim, seq = b.seq_of_row[row];
  const int position = b.kv_tokens[seq] - (b.row_starts[seq + 1] - row);
  const int begin = a.window_tokens > 0 ? max(0, position - a.window_tokens + 1) : 0;
  const int kv_head = (h.q_head_first + head) / h.q_per_kv - h.kv_head_first;
  const int32_t *table = b.block_tables + (int64_t)seq * b.block_table_stride;
  const T *q = (const T *)a.qkv + (int64_t)row * (h.n_q_heads + 2 * h.n_kv_heads) * hd + head * hd;
  const T *k = (const T *)a.kv.k, *v = (const T *)a.kv.v;
  float top = -INFINITY;
  for (int t = begin + threadIdx.x; t <= position; t += blockDim.x) {
    const T *src = k + (((int64_t)table[t / PAGE] * h.n_kv_heads + kv_head) * PAGE + t % PAGE) * hd;
    double s = 0;
    for (int d = 0; d < hd; d++) s += (double)(float)q[d] * (double)(float)src[d];
    scores[t - begin] = (float)(s * a.scale);
  }
  __syncthreads();
  for (int t = begin; t <= position; t++) top = fmaxf(top, scores[t - begin]);
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  double part = 0;
  for (int t = begin + threadIdx.x; t <= position; t += blockDim.x) part += exp((double)(scores[t - begin] - top));
  atomicAdd(&sum, part);
  __syncthreads();
  for (int d = threadIdx.x; d < hd; d += blockDim.x) {
    double o = 0;
    for (int t = begin; t <= position; t++) {
      const T *src = v + (((int64_t)table[t / PAGE] * h.n_kv_heads + kv_head) * PAGE + t % PAGE) * hd;
      o += exp((double)(scores[t - begin] - top)) * (double)(float)src[d];
    }
    out[((int64_t)row * h.n_q_heads + head) * hd + d] = o / sum;
  }
}

struct step {
  shape s;
  yk_batch batch;
  std::vector<yk_kv_layer> layers;
  void *qkv, *y;
  std::vector<void *> owned;
  size_t y_elements, layer_bytes;

  void *take(size_t n_bytes)
  {
    void *p;
    CUDA_OK(cudaMalloc(&p, n_bytes + 256));
    owned.push_back(p);
    return p;
  }

  int32_t *upload(const std::vector<int32_t> &v)
  {
    void *p = take(v.size() * 4);
    CUDA_OK(cudaMemcpy(p, v.data(), v.size() * 4, cudaMemcpyHostToDevice));
    return (int32_t *)p;
  }

  template <typename T> void fill_all(unsigned seed)
  {
    const size_t n_qkv = (size_t)total_rows(s) * (s.heads.n_q_heads + 2 * s.heads.n_kv_heads) * s.heads.head_dim;
    fill<T><<<1024, 256>>>((T *)qkv, n_qkv, seed, 2.0f);
    for (size_t i = 0; i < layers.size(); i++) {
      fill<T><<<1024, 256>>>((T *)layers[i].k, layer_bytes / 2, seed + 10 * (unsigned)i + 1, 2.0f);
      fill<T><<<1024, 256>>>((T *)layers[i].v, layer_bytes / 2, seed + 10 * (unsigned)i + 2, 1.0f);
      for (void *kv : {layers[i].k, layers[i].v})
        poison_tails<T><<<batch.n_seqs, 256>>>((T *)kv, batch.block_tables, batch.block_table_stride, batch.kv_tokens,
                                               s.heads.n_kv_heads, s.heads.head_dim);
    }
    CUDA_OK(cudaDeviceSynchronize());
  }

  step(const shape &of, int n_layers, unsigned seed) : s(of)
  {
    std::mt19937 rng(seed);
    const int n_seqs = (int)s.kv.size(), n_rows = total_rows(s), n_blocks = n_blocks_of(s);
    int stride = 1;
    for (int t : s.kv) stride = std::max(stride, (t + PAGE - 1) / PAGE);
    std::vector<int32_t> physical(n_blocks), starts = {0}, seq_of_row, tables((size_t)n_seqs * stride, -1);
    for (int i = 0; i < n_blocks; i++) physical[i] = i;
    std::shuffle(physical.begin(), physical.end(), rng);
    batch = {};
    for (int i = 0, next = 0; i < n_seqs; i++) {
      for (int j = 0; j < (s.kv[i] + PAGE - 1) / PAGE; j++) tables[(size_t)i * stride + j] = physical[next++];
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
    layer_bytes = (size_t)n_blocks * s.heads.n_kv_heads * PAGE * s.heads.head_dim * 2;
    for (int i = 0; i < n_layers; i++) layers.push_back({take(layer_bytes), take(layer_bytes)});
    qkv = take((size_t)n_rows * (s.heads.n_q_heads + 2 * s.heads.n_kv_heads) * s.heads.head_dim * 2);
    y_elements = (size_t)n_rows * s.heads.n_q_heads * s.heads.head_dim;
    y = take(y_elements * 2);
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
    a.kv = layers[(size_t)layer % layers.size()];
    a.scale = 1.0f / sqrtf((float)s.heads.head_dim);
    a.window_tokens = s.window;
    a.batch = &batch;
    return a;
  }
};

struct machine {
  yk_cuda_attention attn;
  cudaStream_t stream;
  void *workspace;
};

void run(const machine &m, const step &st, int layer)
{
  yk_err err = YK_ERR_INIT;
  const yk_attention_args a = st.args(layer);
  if (yk_cuda_attention_run(&m.attn, &a, st.s.dtype, m.stream, &err) != YK_OK) {
    fprintf(stderr, "%s: %s\n", st.s.name.c_str(), err.message);
    exit(1);
  }
}

/* ---- checks ---- */

double error_of(const machine &m, const step &st)
{
  const yk_attention_args a = st.args(0);
  double *ref;
  CUDA_OK(cudaMalloc(&ref, st.y_elements * 8));
  const dim3 grid((unsigned)st.batch.n_tokens, (unsigned)st.s.heads.n_q_heads);
  const size_t smem = (size_t)st.batch.max_kv_tokens * 4 + 16;
  auto launch = [&](auto kernel) {
    CUDA_OK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)smem));
    kernel<<<grid, 128, smem, m.stream>>>(a, st.batch, ref);
  };
  if (st.s.dtype == YK_F16)
    launch(reference<__half>);
  else
    launch(reference<__nv_bfloat16>);
  CUDA_OK(cudaGetLastError());
  std::vector<double> want(st.y_elements);
  std::vector<uint16_t> got(st.y_elements);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  CUDA_OK(cudaMemcpy(want.data(), ref, st.y_elements * 8, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaMemcpy(got.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
  CUDA_OK(cudaFree(ref));
  double diff = 0, norm = 0;
  for (size_t i = 0; i < st.y_elements; i++) {
    if (std::isnan(want[i])) continue; /* a row of no sequence */
    double g;
    if (st.s.dtype == YK_F16) {
      __half_raw v;
      v.x = got[i];
      g = __half2float(__half(v));
    } else {
      g = yk_bf16_to_f32(got[i]);
    }
    diff += (g - want[i]) * (g - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(diff / norm);
}

/* Runs the step, compares, and repeats it to see the same bits. */
bool check(const machine &m, const shape &s, unsigned seed, FILE *log)
{
  step st(s, 1, seed);
  std::vector<uint16_t> first(st.y_elements), again(st.y_elements);
  CUDA_OK(cudaMemset(st.y, 0xff, st.y_elements * 2));
  run(m, st, 0);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  const double error = error_of(m, st);
  CUDA_OK(cudaMemcpy(first.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
  bool same = true;
  for (int i = 0; i < 3 && same; i++) {
    run(m, st, 0);
    CUDA_OK(cudaStreamSynchronize(m.stream));
    CUDA_OK(cudaMemcpy(again.data(), st.y, st.y_elements * 2, cudaMemcpyDeviceToHost));
    same = first == again;
  }
  const double limit = s.dtype == YK_F16 ? 1e-3 : 8e-3;
  const bool good = error < limit && same;
  fprintf(log, "%-6s %-58s error %.2e (limit %.0e)%s\n", good ? "ok" : "WRONG", s.name.c_str(), error, limit,
          same ? "" : "  bits differ between runs");
  return good;
}

std::vector<int> spread_lengths(int n, int low, int high, unsigned seed)
{
  std::mt19937 rng(seed);
  std::vector<int> v;
  for (int i = 0; i < n; i++) v.push_back(low + (int)(rng() % (unsigned)(high - low + 1)));
  return v;
}

yk_head_layout plain_heads(int n_q, int n_kv, int hd)
{
  return {n_q, n_kv, hd, n_q / n_kv, 0, 0};
}

shape decode(const std::string &name, yk_head_layout h, yk_dtype dtype, int window, std::vector<int> kv)
{
  return {name, h, dtype, window, std::vector<int>(kv.size(), 1), kv};
}

bool check_decode(const machine &m, FILE *log)
{
  bool good = true;
  unsigned seed = (unsigned)std::random_device()();
  fprintf(log, "seed %u\n", seed);
  const std::vector<int> edges = {1, 15, 16, 17, 64, 65, 1000, 2047, 3, 700, 128};
  for (yk_dtype dtype : {YK_F16, YK_BF16}) {
    const std::string suffix = dtype == YK_F16 ? " f16" : " bf16";
    for (int hd : {64, 80, 96, 128, 16, 20, 36, 192, 256}) {
      const std::string size = " hd " + std::to_string(hd) + suffix;
      good &= check(m, decode("decode 8/2 edges" + size, plain_heads(8, 2, hd), dtype, 0, edges), seed++, log);
      good &= check(m, decode("decode 8/2 window 100" + size, plain_heads(8, 2, hd), dtype, 100, edges), seed++, log);
      good &= check(m, decode("decode 14/2" + size, plain_heads(14, 2, hd), dtype, 0, spread_lengths(9, 1, 900, seed)),
                    seed, log);
      good &= check(m, decode("decode 24/2" + size, plain_heads(24, 2, hd), dtype, 0, spread_lengths(9, 1, 900, seed)),
                    seed, log);
      good &= check(m, decode("decode 40/1" + size, plain_heads(40, 1, hd), dtype, 7, spread_lengths(5, 1, 900, seed)),
                    seed, log);
      good &= check(m,
                    decode("decode heads 3..8 of groups of 4" + size, {6, 3, hd, 4, 3, 0}, dtype, 0,
                           spread_lengths(9, 1, 900, seed)),
                    seed, log);
    }
    for (int n : {1, 2, 8, 16, 17, 33, 64})
      good &= check(m,
                    decode("decode 32/8, " + std::to_string(n) + " x 600" + suffix, plain_heads(32, 8, 128), dtype, 0,
                           std::vector<int>(n, 600)),
                    seed++, log);
    good &= check(m, decode("decode 32/8, 1 x 1024" + suffix, plain_heads(32, 8, 128), dtype, 0, {1024}), seed++, log);
    good &=
        check(m, decode("decode 32/8, 1 x 20000" + suffix, plain_heads(32, 8, 128), dtype, 0, {20000}), seed++, log);
    good &= check(m,
                  decode("decode 32/8, 64 x 1..4096" + suffix, plain_heads(32, 8, 128), dtype, 0,
                         spread_lengths(64, 1, 4096, seed)),
                  seed, log);
    good &= check(
        m,
        decode("decode 4/2, 2100 x 1..64" + suffix, plain_heads(4, 2, 64), dtype, 0, spread_lengths(2100, 1, 64, seed)),
        seed, log);
  }
  return good;
}

bool check_prefill(const machine &m, FILE *log)
{
  bool good = true;
  unsigned seed = (unsigned)std::random_device()();
  for (yk_dtype dtype : {YK_F16, YK_BF16}) {
    const std::string suffix = dtype == YK_F16 ? " f16" : " bf16";
    for (int hd : {64, 80, 96, 128, 20, 256}) {
      const std::string size = " hd " + std::to_string(hd) + suffix;
      for (int window : {0, 100}) {
        const std::string name = (window ? " window 100" : "") + size;
        good &=
            check(m, {"prefill 8/2, 1 x 300" + name, plain_heads(8, 2, hd), dtype, window, {300}, {300}}, seed++, log);
        good &= check(m,
                      {"chunks, decodes and prefills 8/2" + name,
                       plain_heads(8, 2, hd),
                       dtype,
                       window,
                       {1, 17, 200, 1, 2, 128, 129},
                       {400, 17, 1000, 1, 700, 128, 257}},
                      seed++, log);
        good &= check(m, {"chunks 14/2" + name, plain_heads(14, 2, hd), dtype, window, {77, 31, 2}, {177, 31, 900}},
                      seed++, log);
        good &= check(m,
                      {"chunks, heads 3..8 of groups of 4" + name,
                       {6, 3, hd, 4, 3, 0},
                       dtype,
                       window,
                       {65, 300, 1},
                       {165, 300, 33}},
                      seed++, log);
      }
      good &= check(m, {"prefill 40/1" + size, plain_heads(40, 1, hd), dtype, 0, {70, 9}, {370, 9}}, seed++, log);
      good &= check(m, {"prefill 2/2" + size, plain_heads(2, 2, hd), dtype, 0, {513}, {1025}}, seed++, log);
    }
    good &=
        check(m, {"prefill 32/8, 1 x 1500" + suffix, plain_heads(32, 8, 128), dtype, 0, {1500}, {1500}}, seed++, log);
    good &= check(m,
                  {"prefill 8/2, 40 x 1..300" + suffix, plain_heads(8, 2, 128), dtype, 0, spread_lengths(40, 1, 300, 5),
                   spread_lengths(40, 1, 300, 5)},
                  seed++, log);
  }
  return good;
}

/* A graph captured for a bucket, replayed with other lengths and fewer sequences. */
bool check_replay(const machine &m, FILE *log)
{
  shape s = decode("replay with other lengths", plain_heads(32, 8, 128), YK_F16, 0, std::vector<int>(16, 900));
  step st(s, 1, 99);
  run(m, st, 0);
  cudaGraphExec_t exec = capture(m.stream, [&](cudaStream_t) { run(m, st, 0); });
  bool good = true;
  for (int n : {16, 11, 1}) {
    std::vector<int32_t> kv = spread_lengths(16, 1, 900, (unsigned)n), starts;
    for (int i = 0; i <= 16; i++) starts.push_back(std::min(i, n));
    for (int i = n; i < 16; i++) kv[i] = 0;
    CUDA_OK(cudaMemcpy((void *)st.batch.kv_tokens, kv.data(), 64, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy((void *)st.batch.row_starts, starts.data(), 68, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemset(st.y, 0xff, st.y_elements * 2));
    CUDA_OK(cudaGraphLaunch(exec, m.stream));
    CUDA_OK(cudaStreamSynchronize(m.stream));
    step view = st;
    view.owned.clear();
    view.batch.n_tokens = n;
    view.y_elements = (size_t)n * 32 * 128;
    const double error = error_of(m, view);
    good &= error < 1e-3;
    fprintf(log, "%-6s %s, %d of 16 sequences: error %.2e\n", error < 1e-3 ? "ok" : "WRONG", s.name.c_str(), n, error);
  }
  return good;
}

/* ---- timing ---- */

struct timed {
  shape s;
  double quoted; /* cuDNN on the same kind of GPU: microseconds (decode of one sequence), TB/s or TFLOP/s; 0: none */
  const char *quoted_unit;
};

struct figures {
  double bytes, flops; /* least bytes moved; products of visible pairs only */
};

figures work_of(const shape &s)
{
  double pairs = 0, kv_tokens = 0;
  for (size_t i = 0; i < s.kv.size(); i++) {
    int first = s.kv[i];
    for (int r = 0; r < s.rows[i]; r++) {
      const int position = s.kv[i] - s.rows[i] + r;
      const int begin = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
      pairs += position + 1 - begin;
      first = std::min(first, begin);
    }
    kv_tokens += s.kv[i] - first;
  }
  const double hd = s.heads.head_dim;
  return {(kv_tokens * s.heads.n_kv_heads * 2 + 2.0 * total_rows(s) * s.heads.n_q_heads) * hd * 2,
          4.0 * pairs * s.heads.n_q_heads * hd};
}

std::vector<timed> timed_cases()
{
  const yk_head_layout h = plain_heads(32, 8, 128);
  auto even = [&](int n, int kv) {
    return decode("decode " + std::to_string(n) + " x " + std::to_string(kv), h, YK_F16, 0, std::vector<int>(n, kv));
  };
  auto prefill = [&](int n, int rows, int earlier) {
    return shape{"prefill " + std::to_string(n) + " x " + std::to_string(rows) +
                     (earlier ? " after " + std::to_string(earlier) : ""),
                 h,
                 YK_F16,
                 0,
                 std::vector<int>(n, rows),
                 std::vector<int>(n, rows + earlier)};
  };
  std::vector<timed> v;
  v.push_back({even(1, 1024), 12, "us"});
  v.push_back({even(1, 8192), 0, ""});
  v.push_back({even(1, 65536), 0, ""});
  v.push_back({even(8, 1024), 0, ""});
  v.push_back({even(1, 600), 0, ""});
  v.push_back({even(8, 650), 0, ""});
  v.push_back({even(32, 600), 0, ""});
  v.push_back({even(64, 600), 0, ""});
  for (int n : {2, 8, 16, 32, 64, 128})
    v.push_back(
        {decode("decode " + std::to_string(n) + " x 100..1000 uneven", h, YK_F16, 0, spread_lengths(n, 100, 1000, 3)),
         0, ""});
  v.push_back({even(64, 1024), 0, ""});
  v.push_back({even(128, 1024), 3.9, "TB/s"});
  v.push_back({even(256, 1024), 0, ""});
  v.push_back({even(64, 4096), 4.2, "TB/s"});
  v.push_back({decode("decode 64 x 1..8192 uneven", h, YK_F16, 0, spread_lengths(64, 1, 8192, 3)), 0, ""});
  v.push_back({decode("decode 64 x 8192 window 1024", h, YK_F16, 1024, std::vector<int>(64, 8192)), 0, ""});
  v.push_back({decode("decode 128 x 1024 bf16", h, YK_BF16, 0, std::vector<int>(128, 1024)), 0, ""});
  v.push_back(
      {decode("decode 128 x 1024 16/2 hd 64", plain_heads(16, 2, 64), YK_F16, 0, std::vector<int>(128, 1024)), 0, ""});
  v.push_back(
      {decode("decode 128 x 1024 8/2 (4 ranks)", plain_heads(8, 2, 128), YK_F16, 0, std::vector<int>(128, 1024)), 0,
       ""});
  v.push_back({decode("decode 1 x 1024 8/2 (4 ranks)", plain_heads(8, 2, 128), YK_F16, 0, {1024}), 0, ""});
  v.push_back({prefill(1, 1024, 0), 0, ""});
  v.push_back({prefill(1, 4096, 0), 512, "TFLOP/s"});
  v.push_back({prefill(1, 16384, 0), 565, "TFLOP/s"});
  v.push_back({prefill(8, 1024, 0), 0, ""});
  v.push_back({prefill(1, 512, 8192), 0, ""});
  v.push_back({prefill(1, 2048, 14336), 0, ""});
  shape bf16 = prefill(1, 4096, 0);
  bf16.name += " bf16", bf16.dtype = YK_BF16;
  v.push_back({bf16, 0, ""});
  shape hd64 = prefill(1, 4096, 0);
  hd64.name += " 32/8 hd 64", hd64.heads = plain_heads(32, 8, 64);
  v.push_back({hd64, 0, ""});
  shape mixed = prefill(1, 1024, 0);
  mixed.name = "64 decodes x 1024 + prefill 1024", mixed.rows = {1024}, mixed.kv = {1024};
  for (int i = 0; i < 64; i++) mixed.rows.push_back(1), mixed.kv.push_back(1024);
  v.push_back({mixed, 0, ""});
  return v;
}

spread time_case(const machine &m, const shape &s)
{
  const size_t layer = (size_t)n_blocks_of(s) * s.heads.n_kv_heads * PAGE * s.heads.head_dim * 4;
  const int n_layers = (int)std::max<size_t>(2, std::min<size_t>(64, ((size_t)200 << 20) / layer + 1));
  step st(s, n_layers, 7);
  run(m, st, 0);
  CUDA_OK(cudaStreamSynchronize(m.stream));
  const figures w = work_of(s);
  const int n_nodes = std::max(n_layers, w.flops > 1e11 ? 4 : 16);
  cudaGraphExec_t exec = capture(m.stream, [&](cudaStream_t) {
    for (int i = 0; i < n_nodes; i++) run(m, st, i);
  });
  const spread us = time_graph(m.stream, exec, n_nodes, 15);
  CUDA_OK(cudaGraphExecDestroy(exec));
  return us;
}

void time_all(const machine &m, const std::string &filter, FILE *json)
{
  printf("\n%-36s %9s %19s %8s %9s %9s %6s  %s\n", "case (32/8 heads of 128, f16)", "us", "range", "TB/s", "TFLOP/s",
         "floor us", "eff", "cuDNN (quoted)");
  bool comma = false;
  for (const timed &t : timed_cases()) {
    if (t.s.name.find(filter) == std::string::npos) continue;
    const figures w = work_of(t.s);
    const double floor_us = std::max(w.bytes / 4.35e6, w.flops / 640e6);
    const spread us = time_case(m, t.s);
    printf("%-36s %9.2f [%8.2f,%8.2f] %8.2f %9.1f %9.2f %5.0f%%", t.s.name.c_str(), us.median, us.low, us.high,
           w.bytes / us.median * 1e-6, w.flops / us.median * 1e-6, floor_us, 100 * floor_us / us.median);
    if (t.quoted > 0) printf("  %g %s", t.quoted, t.quoted_unit);
    printf("\n");
    fflush(stdout);
    if (!json) continue;
    fprintf(json,
            "%s\n    {\"case\": \"%s\", \"us\": %.3f, \"us_low\": %.3f, \"us_high\": %.3f, \"bytes\": %.0f, "
            "\"flops\": %.0f, \"tb_s\": %.3f, \"tflop_s\": %.1f, \"floor_us\": %.3f, \"efficiency\": %.3f}",
            comma ? "," : "", t.s.name.c_str(), us.median, us.low, us.high, w.bytes, w.flops,
            w.bytes / us.median * 1e-6, w.flops / us.median * 1e-6, floor_us, floor_us / us.median);
    comma = true;
  }
}

void usage()
{
  printf("bench_attention - check and time attention over the paged KV cache on the first CUDA device\n\n"
         "  --json FILE      also write the figures as JSON\n"
         "  --filter TEXT    time only cases whose name contains TEXT\n"
         "  --check-only     check, do not time\n"
         "  --time-only      do not check\n"
         "  --no-hopper      use the kernels of older GPUs for prefill\n"
         "  --shared KIB     as if a block could have no more shared memory\n"
         "  --verbose        print every check, not only wrong ones\n"
         "  --commit ID      recorded in the JSON\n\n"
         "Floor: max(bytes / 4.35 TB/s, flops / 640 TFLOP/s). Exit status 1 if a check fails.\n");
}

} // namespace

int main(int argc, char **argv)
{
  std::string json_path, filter, commit = "unknown";
  bool do_check = true, do_time = true, verbose = false, hopper = true;
  int shared_kib = 1024; /* no GPU has as much */
  for (int i = 1; i < argc; i++) {
    const std::string a = argv[i];
    const bool more = i + 1 < argc;
    if (a == "--help") {
      usage();
      return 0;
    } else if (a == "--json" && more) {
      json_path = argv[++i];
    } else if (a == "--filter" && more) {
      filter = argv[++i];
    } else if (a == "--commit" && more) {
      commit = argv[++i];
    } else if (a == "--check-only") {
      do_time = false;
    } else if (a == "--time-only") {
      do_check = false;
    } else if (a == "--no-hopper") {
      hopper = false;
    } else if (a == "--shared" && more) {
      char *end;
      const long kib = strtol(argv[++i], &end, 10);
      if (*end || end == argv[i] || kib < 1 || kib > 1024) {
        fprintf(stderr, "bench_attention: --shared: expected KiB from 1 to 1024, found \"%s\" (see --help)\n", argv[i]);
        return 2;
      }
      shared_kib = static_cast<int>(kib);
    } else if (a == "--verbose") {
      verbose = true;
    } else {
      fprintf(stderr, "bench_attention: unknown option %s (see --help)\n", a.c_str());
      return 2;
    }
  }
  machine m = {};
  cudaDeviceProp prop;
  int driver = 0;
  CUDA_OK(cudaGetDeviceProperties(&prop, 0));
  CUDA_OK(cudaDriverGetVersion(&driver));
  CUDA_OK(cudaStreamCreateWithFlags(&m.stream, cudaStreamNonBlocking));
  const size_t workspace_bytes = yk_cuda_attention_workspace_bytes(prop.multiProcessorCount, 256);
  CUDA_OK(cudaMalloc(&m.workspace, workspace_bytes));
  CUDA_OK(cudaMemset(m.workspace, 0, workspace_bytes));
  yk_err err = YK_ERR_INIT;
  if (yk_cuda_attention_init(&m.attn, m.workspace, &err) != YK_OK) {
    fprintf(stderr, "%s\n", err.message);
    return 1;
  }
  if (!hopper) m.attn.encode_tensor_map = nullptr;
  m.attn.smem_bytes = std::min(m.attn.smem_bytes, shared_kib * 1024);
  setvbuf(stdout, nullptr, _IOLBF, 0);
  bool good = true;
  if (do_check) {
    FILE *log = verbose ? stdout : fopen("/dev/null", "w");
    good &= check_decode(m, log);
    good &= check_replay(m, log);
    good &= check_prefill(m, log);
    printf("checks against the float64 reference: %s\n", good ? "all good" : "WRONG (see --verbose)");
    if (!good) return 1;
  }
  if (!do_time) return 0;
  const ceilings top = measure_ceilings(m.stream);
  printf("%s, %d SMs, CUDA driver %d.%d: read %.2f TB/s, copy %.2f TB/s, f16 matmul %.0f TFLOP/s\n", prop.name,
         prop.multiProcessorCount, driver / 1000, driver % 1000 / 10, top.read_tb_s, top.copy_tb_s, top.matmul_tflop_s);
  FILE *json = json_path.empty() ? nullptr : fopen(json_path.c_str(), "w");
  if (json)
    fprintf(json,
            "{\n  \"gpu\": \"%s\", \"driver\": %d, \"commit\": \"%s\", \"command\": \"bench_attention\",\n"
            "  \"read_tb_s\": %.3f, \"copy_tb_s\": %.3f, \"matmul_tflop_s\": %.1f,\n  \"cases\": [",
            prop.name, driver, commit.c_str(), top.read_tb_s, top.copy_tb_s, top.matmul_tflop_s);
  time_all(m, filter, json);
  if (json) {
    fprintf(json, "\n  ]\n}\n");
    fclose(json);
  }
  return 0;
}
