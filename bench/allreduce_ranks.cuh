/* allreduce_ranks.cuh - the ranks of bench_allreduce: one thread and one stream per rank, and the operations that are
 * timed. */
#ifndef YK_BENCH_ALLREDUCE_RANKS_CUH
#define YK_BENCH_ALLREDUCE_RANKS_CUH

#include <functional>
#include <thread>
#include <vector>

#ifdef YOKE_HAVE_NCCL
#include <nccl.h>
#endif

#include "bench/gpu_timing.cuh"
#include "bench/kernel_bench.cuh"
#include "kernels/cuda/moe/combine.h"
#include "parallel/p2p/allreduce_p2p.h"

namespace allreduce {

using namespace bench;

constexpr int64_t MAX_BYTES = 8 << 20;
constexpr int64_t ALWAYS_ONE_SHOT = INT64_MAX, ALWAYS_TWO_SHOT = 1; /* numbers of rows at which the kernel changes */

/* A mixture of experts whose outputs are combined before the all-reduce. */
constexpr int TOP_K = 8, MOST_COMBINED = 512, COMBINED_HIDDEN = 2048;

struct rank_state {
  int rank, device;
  cudaStream_t stream;
  char *partial, *residual, *y, *w;
  char *slots;             /* [MOST_COMBINED * TOP_K, COMBINED_HIDDEN] */
  float *weights;          /* [MOST_COMBINED, TOP_K] */
  int32_t *slot_of_choice; /* [MOST_COMBINED, TOP_K] */
#ifdef YOKE_HAVE_NCCL
  ncclComm_t nccl;
#endif
};

using group = std::vector<yk_p2p *>;

struct machine {
  std::vector<rank_state> ranks;
  bool have_nccl;
};

/* Run f(rank) for every rank, on a thread with the rank's device current. The caller's copies are waited for first,
 * because the ranks' streams are not ordered after them. */
inline void on_all(machine &m, const std::function<void(rank_state &)> &f)
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

inline group create(const machine &m, int64_t one_shot_bytes, int timeout_ms)
{
  group g(m.ranks.size());
  std::vector<int> devices;
  for (const rank_state &r : m.ranks) devices.push_back(r.device);
  const yk_p2p_options options = {MAX_BYTES, 16384, one_shot_bytes, timeout_ms};
  const int n_ranks = (int)devices.size();
  const yk_p2p_ranks ranks = {n_ranks, 0, n_ranks, 0, devices.data()};
  yk_err err = YK_ERR_INIT;
  check(yk_p2p_create(&ranks, &options, g.data(), &err), err);
  return g;
}

inline void destroy(group &g)
{
  for (yk_p2p *end : g) yk_p2p_destroy(end);
}

/* All-reduce of partial with residual add and norm. */
inline void reduce_add_norm(yk_p2p *end, const rank_state &r, const yk_partial &partial, int rows, int hidden,
                            yk_dtype dtype, float alpha)
{
  yk_err err = YK_ERR_INIT;
  yk_all_reduce_add_norm_args args = {};
  args.partial = partial;
  args.residual = r.residual;
  args.y = r.y;
  args.w = r.w;
  args.n_rows = rows;
  args.hidden = hidden;
  args.alpha = alpha;
  args.eps = 1e-6f;
  args.reader = YK_READER_GEMM;
  check(yk_p2p_all_reduce_add_norm(end, &args, dtype, r.stream, &err), err);
}

inline void all_reduce_add_norm(yk_p2p *end, const rank_state &r, int rows, int hidden, yk_dtype dtype, float alpha)
{
  reduce_add_norm(end, r, {YK_PARTIAL_ROWS, r.partial, {}}, rows, hidden, dtype, alpha);
}

inline yk_combine_args combination(const rank_state &r, int rows, int hidden)
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

inline void combine(const rank_state &r, int rows, int hidden, yk_dtype dtype)
{
  const yk_combine_args args = combination(r, rows, hidden);
  CUDA_OK(yk_cuda_launch_combine(dtype, &args, r.stream));
}

/* The all-reduce with a fused combination. The expert choices were written long before, as in a model. */
inline void combine_and_reduce(yk_p2p *end, const rank_state &r, int rows, int hidden, yk_dtype dtype, float alpha)
{
  reduce_add_norm(end, r, {YK_PARTIAL_SLOTS, r.partial, combination(r, rows, hidden)}, rows, hidden, dtype, alpha);
}

} // namespace allreduce

#endif
