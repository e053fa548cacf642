/* allreduce_check.cuh - the checks of bench_allreduce: random sizes one after the other, every result against float64
 * on the host and bit for bit across ranks; a replayed graph; a rank that never arrives; an abort. */
#ifndef YK_BENCH_ALLREDUCE_CHECK_CUH
#define YK_BENCH_ALLREDUCE_CHECK_CUH

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include <cuda_bf16.h>

#include "bench/allreduce_ranks.cuh"

namespace allreduce {

inline float to_float(uint16_t bits, yk_dtype dtype)
{
  if (dtype == YK_BF16) return yk_bf16_to_f32(bits);
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
}

inline uint16_t from_float(float v, yk_dtype dtype)
{
  return dtype == YK_BF16 ? __nv_bfloat16_raw(__float2bfloat16(v)).x : __half_raw(__float2half(v)).x;
}

inline std::vector<uint16_t> random_values(size_t n, yk_dtype dtype, std::mt19937 &rng)
{
  std::vector<uint16_t> v(n);
  std::normal_distribution<float> normal;
  for (uint16_t &x : v) x = rng() % 50 == 0 ? 0x8000 : from_float(normal(rng), dtype); /* includes minus zeros */
  return v;
}

inline std::vector<uint16_t> download(const char *src, size_t n)
{
  std::vector<uint16_t> v(n);
  CUDA_OK(cudaMemcpy(v.data(), src, n * 2, cudaMemcpyDeviceToHost));
  return v;
}

struct verdict {
  double residual_error, y_error;
  bool same_bits;
};

/* One all-reduce with residual add and norm of fresh data. Some sums round to minus zero, which must not read as a
 * packet that has not arrived. Most sums are not zero, so that errors are relative to something. */
inline verdict check_one(machine &m, group &g, int rows, int hidden, yk_dtype dtype, std::mt19937 &rng)
{
  const size_t n = (size_t)rows * hidden, n_tiny = std::min<size_t>(16, n / 8);
  const float alpha = 0.4f;
  const uint16_t least = 0x8001;
  std::vector<uint16_t> before = random_values(n, dtype, rng), w = random_values(hidden, dtype, rng);
  std::vector<double> sum(n, 0.0);
  std::vector<size_t> tiny(n_tiny);
  for (size_t &i : tiny) i = rng() % (n / 2) * 2;
  for (size_t i : tiny) before[i] = before[i + 1] = 0;
  for (rank_state &r : m.ranks) {
    std::vector<uint16_t> x = random_values(n, dtype, rng);
    for (size_t i : tiny) x[i] = 0, x[i + 1] = r.rank == 0 ? least : 0;
    for (size_t i = 0; i < n; i++) sum[i] += to_float(x[i], dtype);
    CUDA_OK(cudaMemcpy(r.partial, x.data(), n * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(r.residual, before.data(), n * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(r.w, w.data(), hidden * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemset(r.y, 0xff, n * 2));
  }
  on_all(m, [&](rank_state &r) {
    all_reduce_add_norm(g[r.rank], r, rows, hidden, dtype, alpha);
    CUDA_OK(cudaStreamSynchronize(r.stream));
    yk_err err = YK_ERR_INIT;
    check(yk_p2p_check(g[r.rank], &err), err);
  });
  const std::vector<uint16_t> residual = download(m.ranks[0].residual, n), y = download(m.ranks[0].y, n);
  verdict v = {0, 0, true};
  for (size_t r = 1; r < m.ranks.size(); r++)
    v.same_bits = v.same_bits && residual == download(m.ranks[r].residual, n) && y == download(m.ranks[r].y, n);
  double diff[2] = {0, 0}, norm[2] = {0, 0};
  for (int row = 0; row < rows; row++) {
    double squares = 0;
    for (int i = 0; i < hidden; i++) {
      const size_t at = (size_t)row * hidden + i;
      sum[at] = to_float(before[at], dtype) + alpha * sum[at];
      squares += sum[at] * sum[at];
    }
    for (int i = 0; i < hidden; i++) {
      const size_t at = (size_t)row * hidden + i;
      const double want = sum[at] / std::sqrt(squares / hidden + 1e-6) * to_float(w[i], dtype);
      diff[0] += std::pow(to_float(residual[at], dtype) - sum[at], 2), norm[0] += sum[at] * sum[at];
      diff[1] += std::pow(to_float(y[at], dtype) - want, 2), norm[1] += want * want;
    }
  }
  v.residual_error = std::sqrt(diff[0] / norm[0]);
  v.y_error = std::sqrt(diff[1] / norm[1]);
  return v;
}

/* Sizes from one row of a thread block to many rows. */
inline bool check_sizes(machine &m, group &g, const char *name, bool verbose, std::mt19937 &rng)
{
  bool good = true;
  const int rows_of[] = {1, 2, 3, 7, 31, 64, 129, 300, 700, 2500};
  for (int i = 0; i < 60; i++) {
    const yk_dtype dtype = i % 2 ? YK_BF16 : YK_F16;
    const int rows = rows_of[rng() % (m.most_sharing <= 2 ? 10 : 8)];
    int most_packets = std::min<int>(MAX_BYTES / 4 / rows / 16, 1000);
    if (m.most_sharing > 1) most_packets = std::min(most_packets, rows <= 31 ? 500 : rows <= 700 ? 64 : 128);
    const int hidden = 8 * (1 + (int)(rng() % most_packets));
    const verdict v = check_one(m, g, rows, hidden, dtype, rng);
    const double limit = dtype == YK_F16 ? 1e-3 : 8e-3;
    const bool ok = v.same_bits && v.residual_error < limit && v.y_error < limit;
    good &= ok;
    if (verbose || !ok)
      printf("%s %s %d x %d %s: residual %.2e y %.2e%s\n", ok ? "ok   " : "WRONG", name, rows, hidden,
             yk_dtype_name(dtype), v.residual_error, v.y_error, v.same_bits ? "" : ", bits differ between ranks");
  }
  return good;
}

/* The all-reduce with a fused combination gives the same bits as a combination followed by an all-reduce, on every
 * rank. */
inline bool check_combined(machine &m, group &g, const char *name, std::mt19937 &rng)
{
  bool good = true;
  for (int rows : {1, 3, 40, 129, 300, MOST_COMBINED}) {
    const int hidden = 8 * (1 + static_cast<int>(rng() % (m.most_sharing > 1 ? 64 : COMBINED_HIDDEN / 8)));
    const yk_dtype dtype = rng() % 2 ? YK_BF16 : YK_F16;
    const size_t n = static_cast<size_t>(rows) * hidden;
    if (m.most_sharing > 2 && rows > 129) continue;
    for (rank_state &r : m.ranks) {
      const std::vector<uint16_t> slots = random_values(n * TOP_K, dtype, rng);
      std::vector<float> weights(static_cast<size_t>(rows) * TOP_K);
      std::vector<int32_t> slot_of_choice(weights.size());
      for (float &x : weights) x = static_cast<float>(rng() % 1000) * 1e-3f;
      for (size_t i = 0; i < slot_of_choice.size(); i++) slot_of_choice[i] = static_cast<int32_t>(i);
      std::shuffle(slot_of_choice.begin(), slot_of_choice.end(), rng);
      for (int32_t &slot : slot_of_choice) slot = rng() % 3 == 0 ? -1 : slot;
      CUDA_OK(cudaMemcpy(r.slots, slots.data(), slots.size() * 2, cudaMemcpyHostToDevice));
      CUDA_OK(cudaMemcpy(r.weights, weights.data(), weights.size() * 4, cudaMemcpyHostToDevice));
      CUDA_OK(cudaMemcpy(r.slot_of_choice, slot_of_choice.data(), weights.size() * 4, cudaMemcpyHostToDevice));
    }
    const std::vector<uint16_t> before = random_values(n, dtype, rng), w = random_values(hidden, dtype, rng);
    std::vector<uint16_t> residual_apart, y_apart;
    for (bool together : {false, true}) {
      for (rank_state &r : m.ranks) {
        CUDA_OK(cudaMemcpy(r.residual, before.data(), n * 2, cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemcpy(r.w, w.data(), hidden * 2, cudaMemcpyHostToDevice));
        CUDA_OK(cudaMemset(r.partial, 0xff, n * 2));
        CUDA_OK(cudaMemset(r.y, 0xff, n * 2));
      }
      on_all(m, [&](rank_state &r) {
        if (!together) combine(r, rows, hidden, dtype);
        if (together)
          combine_and_reduce(g[r.rank], r, rows, hidden, dtype, 0.4f);
        else
          all_reduce_add_norm(g[r.rank], r, rows, hidden, dtype, 0.4f);
        CUDA_OK(cudaStreamSynchronize(r.stream));
        yk_err err = YK_ERR_INIT;
        check(yk_p2p_check(g[r.rank], &err), err);
      });
      for (const rank_state &r : m.ranks) {
        const std::vector<uint16_t> residual = download(r.residual, n), y = download(r.y, n);
        if (!together && r.rank == 0) residual_apart = residual, y_apart = y;
        if (residual == residual_apart && y == y_apart) continue;
        printf("WRONG %s: %d x %d %s on rank %d, combined %s\n", name, rows, hidden, yk_dtype_name(dtype), r.rank,
               together ? "first" : "apart");
        good = false;
      }
    }
  }
  return good;
}

/* In-place all-reduce of float32 arrays, also of odd lengths. */
inline bool check_plain(machine &m, group &g, const char *name, std::mt19937 &rng)
{
  bool good = true;
  for (int64_t count : {8, 4096, 40008, 300000}) {
    if (m.most_sharing > 1 && count > 50000) continue;
    std::vector<float> sum(count, 0.0f);
    for (rank_state &r : m.ranks) {
      std::vector<float> x(count);
      for (int64_t i = 0; i < count; i++) {
        x[i] = (float)(int)(rng() % 2001 - 1000) / 8.0f;
        sum[i] += x[i];
      }
      CUDA_OK(cudaMemcpy(r.partial, x.data(), count * 4, cudaMemcpyHostToDevice));
    }
    on_all(m, [&](rank_state &r) {
      yk_err err = YK_ERR_INIT;
      check(yk_p2p_all_reduce(g[r.rank], r.partial, count, YK_F32, r.stream, &err), err);
      CUDA_OK(cudaStreamSynchronize(r.stream));
      check(yk_p2p_check(g[r.rank], &err), err);
    });
    for (rank_state &r : m.ranks) {
      std::vector<float> got(count);
      CUDA_OK(cudaMemcpy(got.data(), r.partial, count * 4, cudaMemcpyDeviceToHost));
      if (got != sum) {
        printf("WRONG %s: all-reduce of %lld float32 on rank %d\n", name, (long long)count, r.rank);
        good = false;
      }
    }
  }
  return good;
}

/* A replayed graph of three sizes: all ranks must end with the same bits. */
inline bool check_replay(machine &m, group &g, const char *name)
{
  std::mt19937 rng(7);
  const size_t n = 40 * 4096;
  for (rank_state &r : m.ranks) {
    const std::vector<uint16_t> x = random_values(n, YK_F16, rng), zero(n, 0), one(4096, from_float(1.0f, YK_F16));
    CUDA_OK(cudaMemcpy(r.partial, x.data(), n * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(r.residual, zero.data(), n * 2, cudaMemcpyHostToDevice));
    CUDA_OK(cudaMemcpy(r.w, one.data(), 4096 * 2, cudaMemcpyHostToDevice));
  }
  on_all(m, [&](rank_state &r) {
    cudaGraphExec_t exec = capture(r.stream, [&](cudaStream_t) {
      for (int rows : {1, 40, 5}) all_reduce_add_norm(g[r.rank], r, rows, 4096, YK_F16, 0.01f);
    });
    for (int i = 0; i < 50; i++) CUDA_OK(cudaGraphLaunch(exec, r.stream));
    CUDA_OK(cudaStreamSynchronize(r.stream));
    CUDA_OK(cudaGraphExecDestroy(exec));
    yk_err err = YK_ERR_INIT;
    check(yk_p2p_check(g[r.rank], &err), err);
  });
  bool good = true;
  for (size_t r = 1; r < m.ranks.size(); r++)
    good = good && download(m.ranks[0].residual, n) == download(m.ranks[r].residual, n) &&
           download(m.ranks[0].y, n) == download(m.ranks[r].y, n);
  if (!good) printf("WRONG %s: replayed graph: bits differ between ranks\n", name);
  return good;
}

/* The last rank never arrives, or aborts: the other ranks must end with an error that names the cause. */
inline bool check_missing(machine &m, bool abort)
{
  group g = create(m, 0, abort ? 60000 : 100);
  const int absent = (int)m.ranks.size() - 1;
  std::atomic<int> n_good{0};
  on_all(m, [&](rank_state &r) {
    if (r.rank == absent) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (abort) yk_p2p_abort(g[r.rank]);
      return;
    }
    all_reduce_add_norm(g[r.rank], r, 4, 4096, YK_F16, 1.0f);
    CUDA_OK(cudaStreamSynchronize(r.stream));
    yk_err err = YK_ERR_INIT;
    const std::string expected = abort ? "aborted" : "for rank " + std::to_string(absent);
    if (yk_p2p_check(g[r.rank], &err) == YK_E_COMM && strstr(err.message, expected.c_str()))
      n_good++;
    else
      printf("WRONG rank %d: expected an error with \"%s\", found \"%s\"\n", r.rank, expected.c_str(), err.message);
  });
  destroy(g);
  return n_good == absent;
}

/* seed: of all sizes and values. */
inline bool check_all(machine &m, bool verbose, uint32_t seed)
{
  std::mt19937 rng(seed);
  bool good = true;
  printf("checks of --seed %u\n", seed);
  struct {
    const char *name;
    int64_t one_shot_bytes;
  } kinds[] = {{"one-shot", ALWAYS_ONE_SHOT}, {"two-shot", ALWAYS_TWO_SHOT}, {"by size", 0}};
  for (auto &kind : kinds) {
    group g = create(m, kind.one_shot_bytes, 5000);
    good &= check_sizes(m, g, kind.name, verbose, rng);
    good &= check_combined(m, g, kind.name, rng);
    good &= check_plain(m, g, kind.name, rng);
    good &= check_replay(m, g, kind.name);
    destroy(g);
  }
  good &= check_missing(m, false);
  good &= check_missing(m, true);
  printf("checks (float64 reference, same bits on all ranks, replay, missing rank, abort): %s\n",
         good ? "all good" : "WRONG");
  return good;
}

} // namespace allreduce

#endif
