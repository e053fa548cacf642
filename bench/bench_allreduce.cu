/* bench_allreduce.cu - all-reduce over GPUs, one-shot and two-shot by peer-to-peer stores, beside NCCL; one thread a
 * GPU. Checked first, then timed.
 *
 * Check: random sizes one after the other, every result against float64 on the host and bit for bit across ranks; a
 * replayed graph; a rank that does not come; an abort.
 * Time: a graph of a chain of operations on every rank; the slowest rank's replay divided by the chain's length.
 * Bandwidth, as nccl-tests define it: algbw = bytes / time, busbw = algbw * 2 (n - 1) / n for n ranks. */
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>

#include <cuda_bf16.h>
#ifdef YOKE_HAVE_NCCL
#include <nccl.h>
#endif

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/experts/combine.h"
#include "parallel/allreduce_p2p.h"

using namespace bench;

namespace {

constexpr int64_t MAX_BYTES = 8 << 20;
constexpr int64_t ALWAYS_ONE_SHOT = INT64_MAX, ALWAYS_TWO_SHOT = 1; /* crossovers */

/* A mixture of experts, whose outputs are combined before they are added up over ranks. */
constexpr int TOP_K = 8, MOST_COMBINED = 512, COMBINED_HIDDEN = 2048;

struct rank_state {
  int rank, device;
  cudaStream_t stream;
  char *partial, *residual, *y, *w;
  char *slots;             /* [MOST_COMBINED * TOP_K, COMBINED_HIDDEN] */
  float *weights;          /* [MOST_COMBINED, TOP_K] */
  int32_t *slot_of_choice; /* likewise */
#ifdef YOKE_HAVE_NCCL
  ncclComm_t nccl;
#endif
};

using group = std::vector<yk_p2p *>;

struct machine {
  std::vector<rank_state> ranks;
  bool have_nccl;
  int most_sharing; /* most ranks on one device: their thread blocks must fit on it together */
};

/* Run f(rank) for every rank, on a thread with the rank's device current, once the copies of the caller have ended: the
 * ranks' streams do not wait for those. */
void on_all(machine &m, const std::function<void(rank_state &)> &f)
{
  for (const rank_state &r : m.ranks) {
    CUDA_OK(cudaSetDevice(r.device));
    CUDA_OK(cudaDeviceSynchronize());
  }
  std::vector<std::thread> threads;
  for (rank_state &r : m.ranks) {
    threads.emplace_back([&f, &r] {
      CUDA_OK(cudaSetDevice(r.device));
      f(r);
    });
  }
  for (std::thread &t : threads) t.join();
}

group create(const machine &m, int64_t one_shot_bytes, int timeout_ms)
{
  group g(m.ranks.size());
  std::vector<int> devices;
  for (const rank_state &r : m.ranks) devices.push_back(r.device);
  const yk_p2p_options options = {MAX_BYTES, 16384, one_shot_bytes, timeout_ms};
  yk_err err = YK_ERR_INIT;
  check(yk_p2p_create(devices.data(), (int)devices.size(), &options, g.data(), &err), err);
  return g;
}

void destroy(group &g)
{
  for (yk_p2p *end : g) yk_p2p_destroy(end);
}

void all_reduce_add_norm(yk_p2p *end, const rank_state &r, int rows, int hidden, yk_dtype dtype, float alpha)
{
  yk_err err = YK_ERR_INIT;
  const yk_all_reduce_add_norm_args args = {r.partial, r.residual, r.y, r.w, rows, hidden, alpha, 1e-6f};
  check(yk_p2p_all_reduce_add_norm(end, &args, dtype, r.stream, &err), err);
}

yk_combine_args combination(const rank_state &r, int rows, int hidden)
{
  yk_combine_args args = {};
  args.y = r.partial;
  args.slots = r.slots;
  args.weights = r.weights;
  args.slot_of_choice = r.slot_of_choice;
  args.n_tokens = rows;
  args.top_k = TOP_K;
  args.hidden = hidden;
  return args;
}

void combine(const rank_state &r, int rows, int hidden, yk_dtype dtype)
{
  const yk_combine_args args = combination(r, rows, hidden);
  CUDA_OK(yk_cuda_launch_combine(dtype, &args, r.stream));
}

/* The all-reduce that combines first. */
void combine_and_reduce(yk_p2p *end, const rank_state &r, int rows, int hidden, yk_dtype dtype, float alpha)
{
  yk_err err = YK_ERR_INIT;
  const yk_combine_args sum = combination(r, rows, hidden);
  const yk_all_reduce_add_norm_args args = {r.partial, r.residual, r.y, r.w, rows, hidden, alpha, 1e-6f, &sum};
  check(yk_p2p_all_reduce_add_norm(end, &args, dtype, r.stream, &err), err);
}

/* ---- checks ---- */

float to_float(uint16_t bits, yk_dtype dtype)
{
  if (dtype == YK_BF16) return yk_bf16_to_f32(bits);
  __half_raw raw;
  raw.x = bits;
  return __half2float(__half(raw));
}

uint16_t from_float(float v, yk_dtype dtype)
{
  return dtype == YK_BF16 ? __nv_bfloat16_raw(__float2bfloat16(v)).x : __half_raw(__float2half(v)).x;
}

std::vector<uint16_t> random_values(size_t n, yk_dtype dtype, std::mt19937 &rng)
{
  std::vector<uint16_t> v(n);
  std::normal_distribution<float> normal;
  for (uint16_t &x : v) x = rng() % 50 == 0 ? 0x8000 : from_float(normal(rng), dtype); /* minus zeros too */
  return v;
}

std::vector<uint16_t> download(const char *src, size_t n)
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
 * packet that has not arrived. */
verdict check_one(machine &m, group &g, int rows, int hidden, yk_dtype dtype, std::mt19937 &rng)
{
  const size_t n = (size_t)rows * hidden, n_tiny = 16;
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

/* From one row of a thread block to many. */
bool check_sizes(machine &m, group &g, const char *name, bool verbose)
{
  std::mt19937 rng(std::random_device{}());
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

/* The all-reduce that combines first gives the bits of a combination and an all-reduce after it, on every rank. */
bool check_combined(machine &m, group &g, const char *name)
{
  std::mt19937 rng(std::random_device{}());
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

/* All-reduce in place of float32 arrays, of odd lengths too. */
bool check_plain(machine &m, group &g, const char *name)
{
  std::mt19937 rng(std::random_device{}());
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
bool check_replay(machine &m, group &g, const char *name)
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

/* The last rank does not come, or aborts: the others must end with an error that says so. */
bool check_missing(machine &m, bool abort)
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

bool check_all(machine &m, bool verbose)
{
  bool good = true;
  struct {
    const char *name;
    int64_t one_shot_bytes;
  } kinds[] = {{"one-shot", ALWAYS_ONE_SHOT}, {"two-shot", ALWAYS_TWO_SHOT}, {"by size", 0}};
  for (auto &kind : kinds) {
    group g = create(m, kind.one_shot_bytes, 5000);
    good &= check_sizes(m, g, kind.name, verbose);
    good &= check_combined(m, g, kind.name);
    good &= check_plain(m, g, kind.name);
    good &= check_replay(m, g, kind.name);
    destroy(g);
  }
  good &= check_missing(m, false);
  good &= check_missing(m, true);
  printf("checks (float64 reference, same bits on all ranks, replay, missing rank, abort): %s\n",
         good ? "all good" : "WRONG");
  return good;
}

/* ---- timing ---- */

/* Microseconds of one operation, on the slowest rank. */
spread time_chain(machine &m, int n_nodes, const std::function<void(rank_state &)> &op)
{
  const int n_repeats = 15;
  std::vector<std::vector<double>> us(m.ranks.size(), std::vector<double>(n_repeats));
  std::atomic<int> n_waiting{0};
  on_all(m, [&](rank_state &r) {
    op(r); /* once before the capture */
    CUDA_OK(cudaStreamSynchronize(r.stream));
    cudaGraphExec_t exec = capture(r.stream, [&](cudaStream_t) {
      for (int i = 0; i < n_nodes; i++) op(r);
    });
    cudaEvent_t begin, end;
    CUDA_OK(cudaEventCreate(&begin));
    CUDA_OK(cudaEventCreate(&end));
    for (int i = -2; i < n_repeats; i++) {
      const int target = (int)m.ranks.size() * (i + 3);
      n_waiting++;
      while (n_waiting < target) {
      }
      CUDA_OK(cudaEventRecord(begin, r.stream));
      CUDA_OK(cudaGraphLaunch(exec, r.stream));
      CUDA_OK(cudaEventRecord(end, r.stream));
      CUDA_OK(cudaEventSynchronize(end));
      float ms = 0;
      CUDA_OK(cudaEventElapsedTime(&ms, begin, end));
      if (i >= 0) us[r.rank][i] = ms * 1e3 / n_nodes;
    }
    CUDA_OK(cudaGraphExecDestroy(exec));
    CUDA_OK(cudaEventDestroy(begin));
    CUDA_OK(cudaEventDestroy(end));
  });
  for (size_t r = 1; r < us.size(); r++) {
    for (int i = 0; i < n_repeats; i++) us[0][i] = std::max(us[0][i], us[r][i]);
  }
  return spread_of(us[0]);
}

struct operation {
  const char *name;
  bool is_all_reduce; /* else it has no bandwidth */
  std::function<void(rank_state &, int rows, int hidden)> run;
};

/* by_size, one, two: groups that choose by size, always one-shot and always two-shot. alone: a group of each rank
 * alone. */
std::vector<operation> operations_of(const machine &m, group &one, group &two, group &by_size,
                                     std::vector<group> &alone)
{
  auto fused = [](group &g) {
    return
        [&g](rank_state &r, int rows, int hidden) { all_reduce_add_norm(g[r.rank], r, rows, hidden, YK_F16, 1e-3f); };
  };
  auto add_norm = [&alone](rank_state &r, int rows, int hidden) {
    all_reduce_add_norm(alone[r.rank][0], r, rows, hidden, YK_F16, 1e-3f);
  };
  std::vector<operation> v = {{"one-shot + add + norm", true, fused(one)}, {"two-shot + add + norm", true, fused(two)}};
  v.push_back({"all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                 yk_err err = YK_ERR_INIT;
                 const int64_t count = static_cast<int64_t>(rows) * hidden;
                 check(yk_p2p_all_reduce(by_size[r.rank], r.y, count, YK_F16, r.stream, &err), err);
               }});
  v.push_back({"add + norm", false, add_norm});
#ifdef YOKE_HAVE_NCCL
  if (m.have_nccl) {
    auto nccl = [](rank_state &r, int rows, int hidden) {
      const ncclResult_t result = ncclAllReduce(r.partial, r.partial, static_cast<size_t>(rows) * hidden, ncclFloat16,
                                                ncclSum, r.nccl, r.stream);
      if (result != ncclSuccess) give_up("NCCL", ncclGetErrorString(result));
    };
    v.push_back({"NCCL", true, nccl});
    v.push_back({"NCCL + add + norm", true, [nccl, add_norm](rank_state &r, int rows, int hidden) {
                   nccl(r, rows, hidden);
                   add_norm(r, rows, hidden);
                 }});
  }
#endif
  (void)m;
  return v;
}

/* Random data for a timing. A chain of all-reduces outgrows f16, which does not change its time. */
void fill(machine &m, int64_t n_bytes)
{
  for (rank_state &r : m.ranks) {
    CUDA_OK(cudaSetDevice(r.device));
    fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(r.w), 8192, 3u);
    for (char *p : {r.partial, r.residual, r.y})
      fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(p), n_bytes / 2, 5u);
    CUDA_OK(cudaStreamSynchronize(r.stream));
  }
}

/* One line of the table, and one case of the JSON; is_first: the first case. */
void report(const operation &op, int n_ranks, int rows, int hidden, const spread &us, FILE *json, bool is_first)
{
  const int64_t n_bytes = static_cast<int64_t>(rows) * hidden * 2;
  const double algbw_gb_s = n_bytes / us.median * 1e-3, busbw_gb_s = algbw_gb_s * 2 * (n_ranks - 1) / n_ranks;
  printf("%9lld %6d %7d  %-22s %9.2f %9.2f %9.2f", static_cast<long long>(n_bytes), rows, hidden, op.name, us.median,
         us.low, us.high);
  if (op.is_all_reduce)
    printf(" %12.2f %12.2f\n", algbw_gb_s, busbw_gb_s);
  else
    printf(" %12s %12s\n", "-", "-");
  if (!json) return;
  fprintf(
      json,
      "%s\n    {\"bytes\": %lld, \"rows\": %d, \"hidden\": %d, \"operation\": \"%s\", \"us\": %.3f, \"us_low\": %.3f, "
      "\"us_high\": %.3f",
      is_first ? "" : ",", static_cast<long long>(n_bytes), rows, hidden, op.name, us.median, us.low, us.high);
  if (op.is_all_reduce) fprintf(json, ", \"algbw_gb_s\": %.3f, \"busbw_gb_s\": %.3f", algbw_gb_s, busbw_gb_s);
  fprintf(json, "}");
}

/* Rows of a mixture of experts: combined in a kernel apart, and by the all-reduce. */
void time_combined(machine &m, group &by_size, FILE *json)
{
  const operation apart = {"combine, all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                             combine(r, rows, hidden, YK_F16);
                             all_reduce_add_norm(by_size[r.rank], r, rows, hidden, YK_F16, 1e-3f);
                           }};
  const operation together = {"combining all-reduce", true, [&by_size](rank_state &r, int rows, int hidden) {
                                combine_and_reduce(by_size[r.rank], r, rows, hidden, YK_F16, 1e-3f);
                              }};
  for (int rows : {2, 16, 64, 128, 256, MOST_COMBINED}) {
    std::mt19937 rng(5);
    std::vector<int32_t> slot_of_choice(static_cast<size_t>(rows) * TOP_K);
    for (size_t i = 0; i < slot_of_choice.size(); i++) slot_of_choice[i] = static_cast<int32_t>(i);
    std::shuffle(slot_of_choice.begin(), slot_of_choice.end(), rng);
    for (rank_state &r : m.ranks) {
      CUDA_OK(cudaSetDevice(r.device));
      fill_random<<<256, 256, 0, r.stream>>>(reinterpret_cast<__half *>(r.slots),
                                             static_cast<int64_t>(rows) * TOP_K * COMBINED_HIDDEN, 5u);
      CUDA_OK(cudaMemcpy(r.slot_of_choice, slot_of_choice.data(), slot_of_choice.size() * 4, cudaMemcpyHostToDevice));
      CUDA_OK(cudaMemset(r.weights, 0x3c, slot_of_choice.size() * 4));
    }
    for (const operation &op : {apart, together}) {
      fill(m, static_cast<int64_t>(rows) * COMBINED_HIDDEN * 2);
      const spread us = time_chain(m, 200, [&](rank_state &r) { op.run(r, rows, COMBINED_HIDDEN); });
      report(op, static_cast<int>(m.ranks.size()), rows, COMBINED_HIDDEN, us, json, false);
    }
  }
}

void time_all(machine &m, FILE *json)
{
  group one = create(m, ALWAYS_ONE_SHOT, 5000), two = create(m, ALWAYS_TWO_SHOT, 5000), by_size = create(m, 0, 5000);
  std::vector<group> alone;
  for (rank_state &r : m.ranks) {
    machine single = {{r}, false, 1};
    alone.push_back(create(single, 0, 5000));
  }
  const std::vector<operation> operations = operations_of(m, one, two, by_size, alone);
  printf("\n%9s %6s %7s  %-22s %9s %9s %9s %12s %12s\n", "size(B)", "rows", "hidden", "operation", "time(us)", "low",
         "high", "algbw(GB/s)", "busbw(GB/s)");
  bool is_first = true;
  for (int64_t kib : {4, 16, 64, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 8192}) { /* denser near the crossover */
    const int64_t n_bytes = kib << 10;
    const int hidden = n_bytes < 8192 ? 2048 : 4096, rows = static_cast<int>(n_bytes / 2 / hidden);
    for (const operation &op : operations) {
      fill(m, n_bytes);
      const spread us = time_chain(m, n_bytes <= (1 << 20) ? 200 : 40, [&](rank_state &r) { op.run(r, rows, hidden); });
      report(op, static_cast<int>(m.ranks.size()), rows, hidden, us, json, is_first);
      is_first = false;
    }
  }
  time_combined(m, by_size, json);
  destroy(one);
  destroy(two);
  destroy(by_size);
  for (group &g : alone) destroy(g);
}

void open_ranks(machine &m, const std::vector<int> &devices)
{
  m.have_nccl = false;
  m.most_sharing = 1;
  for (size_t r = 0; r < devices.size(); r++) {
    rank_state s = {};
    s.rank = (int)r;
    s.device = devices[r];
    CUDA_OK(cudaSetDevice(s.device));
    CUDA_OK(cudaStreamCreateWithFlags(&s.stream, cudaStreamNonBlocking));
    for (char **p : {&s.partial, &s.residual, &s.y, &s.w}) CUDA_OK(cudaMalloc(p, MAX_BYTES));
    CUDA_OK(cudaMalloc(&s.slots, MOST_COMBINED * TOP_K * COMBINED_HIDDEN * 2));
    CUDA_OK(cudaMalloc(&s.weights, MOST_COMBINED * TOP_K * sizeof *s.weights));
    CUDA_OK(cudaMalloc(&s.slot_of_choice, MOST_COMBINED * TOP_K * sizeof *s.slot_of_choice));
    m.ranks.push_back(s);
  }
  for (int device : devices)
    m.most_sharing = std::max(m.most_sharing, static_cast<int>(std::count(devices.begin(), devices.end(), device)));
#ifdef YOKE_HAVE_NCCL
  std::vector<ncclComm_t> comms(devices.size());
  if (m.most_sharing == 1 && ncclCommInitAll(comms.data(), (int)devices.size(), devices.data()) == ncclSuccess) {
    for (size_t r = 0; r < devices.size(); r++) m.ranks[r].nccl = comms[r];
    m.have_nccl = true;
  }
#endif
}

struct options {
  report_options report;
  run_options run;
  std::vector<int32_t> devices; /* empty: all */
};

yk_status parse_devices(void *user, const char *text, yk_err *err)
{
  return parse_numbers(text, *static_cast<std::vector<int32_t> *>(user), err);
}

options parse(int argc, char **argv)
{
  options o;
  std::vector<yk_option> options = {
      {.name = "devices",
       .kind = YK_OPTION_CALL,
       .value = &o.devices,
       .metavar = "LIST",
       .help = "CUDA devices, one for each rank, as 0,1; the same one twice can only be checked",
       .fallback = "all",
       .parse = parse_devices}};
  add_options(options, o.run);
  add_options(options, o.report);
  parse_options("bench_allreduce",
                "All-reduce over GPUs, one-shot and two-shot, with residual add and RMSNorm fused in, checked and "
                "timed beside NCCL. algbw is size / time, busbw is algbw * 2 (n - 1) / n for n GPUs, as in nccl-tests. "
                "NVLink multicast is kept off (NCCL_NVLS_ENABLE=0). Exit status 1 if a check fails.",
                "  bench_allreduce --devices 0,1 --json allreduce.json\n", options, argc, argv);
  return o;
}

/* The devices to use, one a rank. */
yk_status find_devices(std::vector<int32_t> &devices, bool check_only, yk_err *err)
{
  int n_present = 0;
  for (int d : devices)
    if (!check_only && std::count(devices.begin(), devices.end(), d) > 1)
      return yk_err_set(err, YK_E_INVAL,
                        "--devices: ranks that share device %d can be checked (--check-only), not timed", d);
  if (cudaGetDeviceCount(&n_present) != cudaSuccess || n_present == 0)
    return yk_err_set(err, YK_E_DEVICE, "no CUDA device was found");
  const bool takes_all = devices.empty();
  for (int d = 0; takes_all && d < n_present && d < YK_MAX_RANKS; d++) devices.push_back(d);
  for (int d : devices)
    if (d < 0 || d >= n_present)
      return yk_err_set(err, YK_E_INVAL, "--devices: expected CUDA devices from 0 to %d, found %d", n_present - 1, d);
  if (devices.size() < 2 || devices.size() > YK_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "expected 2 to %d CUDA devices, found %zu", YK_MAX_RANKS, devices.size());
  return YK_OK;
}

/* json: where the figures go beside standard output; NULL for nowhere. */
void time_and_report(machine &m, const char *commit, FILE *json)
{
  int driver = 0;
  cudaDeviceProp prop;
  CUDA_OK(cudaDriverGetVersion(&driver));
  CUDA_OK(cudaGetDeviceProperties(&prop, m.ranks[0].device));
  const int n_ranks = static_cast<int>(m.ranks.size());
  printf("%d x %s, CUDA driver %d.%d\n", n_ranks, prop.name, driver / 1000, driver % 1000 / 10);
  if (json)
    fprintf(json,
            "{\n  \"gpu\": \"%s\", \"n_gpus\": %d, \"driver\": %d, \"commit\": \"%s\", \"command\": "
            "\"bench_allreduce\", \"dtype\": \"float16\",\n  \"cases\": [",
            prop.name, n_ranks, driver, commit);
  time_all(m, json);
  if (json) fprintf(json, "\n  ]\n}\n");
}

} // namespace

int main(int argc, char **argv)
{
  setenv("NCCL_NVLS_ENABLE", "0", 1); /* before any thread starts */
  setvbuf(stdout, nullptr, _IOLBF, 0);
  options o = parse(argc, argv);
  FILE *json = o.run.check_only ? nullptr : open_figures(o.report);
  yk_err err = YK_ERR_INIT;
  if (find_devices(o.devices, o.run.check_only, &err) != YK_OK) return yk_cli_failure(&err);
  machine m;
  open_ranks(m, o.devices);
  if (!o.run.time_only && !check_all(m, o.run.verbose)) return YK_EXIT_FAILURE;
  if (!o.run.check_only) time_and_report(m, o.report.commit, json);
  close_figures(o.report, json);
  return YK_EXIT_OK;
}
