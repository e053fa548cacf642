/* allreduce_p2p_rows.cuh - device code: a thread group reduces a row in rank order, adds the residual and
 * normalises. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_ROWS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_ROWS_CUH

#include <type_traits>

#include "kernels/cuda/common/combine_rows.cuh"
#include "kernels/cuda/common/reduce.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "parallel/p2p/allreduce_p2p_slots.cuh"

namespace yk_p2p_kernels {

/* The elements of a packet in float32: 8 of 16 bits or 4 of 32. */
template <typename T> struct packet {
  static constexpr int N = 16 / static_cast<int>(sizeof(T));
  float v[N];

  __device__ __forceinline__ static packet of(uint4 bits)
  {
    packet p;
    const T *t = reinterpret_cast<const T *>(&bits);
#pragma unroll
    for (int i = 0; i < N; i++) p.v[i] = static_cast<float>(t[i]);
    return p;
  }

  __device__ __forceinline__ uint4 rounded() const
  {
    uint4 bits;
    T *t = reinterpret_cast<T *>(&bits);
#pragma unroll
    for (int i = 0; i < N; i++) t[i] = static_cast<T>(v[i]);
    return bits;
  }
};

/* A thread group: the threads of a thread block that process one row together, whole warps. A thread block of several
 * thread groups (MANY) processes that many rows at once, since the time of a row is mostly memory latency. PACKETS:
 * packets of a row per thread; they are n_threads packets apart. */
template <int PACKETS, bool SEVERAL> struct thread_group {
  static constexpr int V = PACKETS;
  static constexpr bool MANY = SEVERAL;
  /* Whether a thread holds its packets of the norm's weights and of a row's partial sums and residual in registers from
   * before the exchange on. Every group then has at most one item (division_of). */
  static constexpr bool HOLDS = V <= 2;

  int n_threads, n_groups, index, thread;

  __device__ explicit thread_group(const launch_args &a)
  {
    n_threads = MANY ? a.group_threads : blockDim.x;
    n_groups = MANY ? blockDim.x / n_threads : 1;
    index = MANY ? threadIdx.x / n_threads : 0;
    thread = threadIdx.x - index * n_threads;
  }

  /* The index in a row of the thread's packet v. */
  __device__ __forceinline__ int at(int v) const
  {
    return v * n_threads + thread;
  }

  /* Loads the thread's packets of a row of n; zeros after the end. */
  __device__ __forceinline__ void load(const uint4 *row, int n, uint4 (&x)[V]) const
  {
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = at(v) < n ? row[at(v)] : make_uint4(0, 0, 0, 0);
  }

  /* Calls f(k) for the group's items, among the n_mine of the thread block. */
  template <typename F> __device__ __forceinline__ void for_items(int n_mine, F f) const
  {
    if constexpr (HOLDS) {
      if (index < n_mine) f(index);
    } else {
      for (int k = index; k < n_mine; k += n_groups) f(k);
    }
  }

  /* Whether `mine` is true in any thread of the group. A barrier of the group. */
  __device__ __forceinline__ bool any(bool mine) const
  {
    if (!MANY) return __syncthreads_or(mine) != 0;
    return yk_ptx::named_barrier_or(index + 1, n_threads, mine);
  }
};

/* Packets of a row; the last row of an array without rows (NONE) may have fewer. */
template <norms NORMS> __device__ __forceinline__ int packets_of(const launch_args &a, int row)
{
  return NORMS != norms::NONE ? a.row_packets : min(a.row_packets, a.n_packets - row * a.row_packets);
}

/* The first choices of a row if COMBINES. Settled choices may be read before griddepcontrol.wait. */
template <bool COMBINES> __device__ __forceinline__ yk_cuda::few_choices first_choices(const launch_args &a, int row)
{
  if (!COMBINES || row >= a.n_rows) return {};
  return yk_cuda::choices_in_memory<true>{a.combine, row}.from(0);
}

/* A row's choices, the first of which the thread already holds. */
struct row_choices {
  const yk_cuda::few_choices &first;
  yk_cuda::choices_in_memory<true> all;

  __device__ __forceinline__ yk_cuda::few_choices from(int i) const
  {
    return i == 0 ? first : all.from(i);
  }
};

/* Loads the thread's packets of a row of this rank's partial sums; zeros after the end. If COMBINES, they are computed
 * here, and written unless the thread HOLDS them. */
template <typename T, typename G, norms NORMS, bool COMBINES>
__device__ __forceinline__ void load_partial(const launch_args &a, const G &group, int row,
                                             const yk_cuda::few_choices &first, uint4 (&x)[G::V])
{
  uint4 *partial = static_cast<uint4 *>(a.x) + static_cast<int64_t>(row) * a.row_packets;
  if constexpr (!COMBINES) {
    group.load(partial, packets_of<NORMS>(a, row), x);
  } else {
    const row_choices choices = {first, {a.combine, row}};
#pragma unroll
    for (int v = 0; v < G::V; v++) {
      x[v] = make_uint4(0, 0, 0, 0);
      if (group.at(v) >= a.row_packets) continue;
      const auto sum = yk_cuda::combine_vector<T, 16 / sizeof(T)>(a.combine, row, group.at(v), choices);
      x[v] = reinterpret_cast<const uint4 &>(sum);
      if (!G::HOLDS) partial[group.at(v)] = x[v];
    }
  }
}

/* A thread's part of a row before the other ranks' packets arrive: this rank's partial sums, and the residual. */
template <int V> struct row_so_far {
  uint4 partial[V], residual[V];
};

/* Loads a row into registers; the residual's loads are in flight while the partial sums are loaded or combined. */
template <typename T, typename G, norms NORMS, bool COMBINES>
__device__ __forceinline__ void load_row(const launch_args &a, const G &group, int row,
                                         const yk_cuda::few_choices &first, row_so_far<G::V> &held)
{
  const uint4 *residual = static_cast<const uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets;
  if (NORMS != norms::NONE) group.load(residual, a.row_packets, held.residual);
  load_partial<T, G, NORMS, COMBINES>(a, group, row, first, held.partial);
}

/* One packet of integers, reduced over ranks. */
template <int N>
__device__ __forceinline__ uint4 reduce_integers(const launch_args &a, const uint4 (&from)[N], uint4 own)
{
  const auto both = [&](uint32_t x, uint32_t y) {
    return a.is_max ? static_cast<uint32_t>(max(static_cast<int32_t>(x), static_cast<int32_t>(y))) : x + y;
  };
  uint4 result = own;
#pragma unroll
  for (int r = 0; r < N; r++) {
    if (r >= a.n_ranks || r == a.rank) continue;
    result = make_uint4(both(result.x, from[r].x), both(result.y, from[r].y), both(result.z, from[r].z),
                        both(result.w, from[r].w));
  }
  return result;
}

/* Whether the sum over ranks is rounded and normalised before it is added to the residual. */
template <norms NORMS> __device__ __forceinline__ bool norms_sum(const launch_args &a)
{
  return NORMS == norms::BOTH && a.result_w;
}

/* Returns the new residual: the residual plus alpha * x. */
template <typename T, norms NORMS>
__device__ __forceinline__ packet<T> add_to_residual(const launch_args &a, const packet<T> &residual,
                                                     const packet<T> &x)
{
  packet<T> sum;
#pragma unroll
  for (int i = 0; i < packet<T>::N; i++) {
    sum.v[i] = residual.v[i] + a.alpha * x.v[i];
    if (NORMS == norms::BOTH) sum.v[i] *= a.gain;
  }
  return sum;
}

/* One packet's sum over ranks of float32, in a tree: neighbouring ranks first. */
template <int N> __device__ __forceinline__ uint4 reduce_floats(const launch_args &a, const uint4 (&from)[N], uint4 own)
{
  packet<float> sums[N];
#pragma unroll
  for (int r = 0; r < N; r++)
    if (r < a.n_ranks) sums[r] = packet<float>::of(r == a.rank ? own : from[r]);
#pragma unroll
  for (int step = 1; step < N; step *= 2) {
#pragma unroll
    for (int r = 0; r + step < N; r += 2 * step) {
      if (r + step >= a.n_ranks) continue;
#pragma unroll
      for (int i = 0; i < packet<float>::N; i++) sums[r].v[i] += sums[r + step].v[i];
    }
  }
  return sums[0].rounded();
}

/* One packet's sum over ranks in float32, in rank order; with norms, times alpha and added to the residual, unless the
 * sum has a norm itself. from: the packets that have arrived, by rank; own: this rank's packet in the form sent to the
 * others. */
template <typename T, int N, norms NORMS>
__device__ __forceinline__ uint4 reduce_packet(const launch_args &a, const uint4 (&from)[N], uint4 own, uint4 residual)
{
  packet<T> sum;
#pragma unroll
  for (int i = 0; i < packet<T>::N; i++) sum.v[i] = 0.0f;
#pragma unroll
  for (int r = 0; r < N; r++) {
    if (r >= a.n_ranks) continue;
    const packet<T> p = packet<T>::of(r == a.rank ? own : from[r]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) sum.v[i] += p.v[i];
  }
  if (NORMS != norms::NONE && !norms_sum<NORMS>(a)) sum = add_to_residual<T, NORMS>(a, packet<T>::of(residual), sum);
  return sum.rounded();
}

/* Loads the thread's part of the norm's weights, if it HOLDS them. */
template <typename G, norms NORMS>
__device__ __forceinline__ void load_weights(const launch_args &a, const G &group, uint4 (&weights)[G::V])
{
  if (G::HOLDS && NORMS != norms::NONE && a.w) group.load(static_cast<const uint4 *>(a.w), a.row_packets, weights);
}

/* The same of the weights of the norm of the sum. */
template <typename G>
__device__ __forceinline__ void load_result_weights(const launch_args &a, const G &group, uint4 (&weights)[G::V])
{
  if (G::HOLDS && a.result_w) group.load(static_cast<const uint4 *>(a.result_w), a.row_packets, weights);
}

/* Waits for a row of every other rank, reduces it and writes the result to sum, and to residual unless the sum has a
 * norm itself. held: the row, if the thread HOLDS it; else the row is read from memory. from_of(r): the slots of rank
 * r's row, which are emptied. also(at, packet) is called with every packet of the result and its index in the row, and
 * may change the packet. */
template <typename T, int N, typename G, norms NORMS, typename F, typename A>
__device__ __forceinline__ void reduce_row(block_view &b, const G &group, int row, const row_so_far<G::V> &held,
                                           uint4 (&sum)[G::V], F from_of, A also)
{
  constexpr int V = G::V;
  /* packets per rank polled together: registers limit the number */
  constexpr int AT_ONCE = N <= 2 ? V : N <= 4 && V > 1 ? 2 : 1;
  const launch_args &a = b.a;
  const uint4 *x = static_cast<const uint4 *>(a.x) + static_cast<int64_t>(row) * a.row_packets;
  uint4 *residual = static_cast<uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets;
  const int n = packets_of<NORMS>(a, row);
  uint4 *incoming[N];
#pragma unroll
  for (int r = 0; r < N; r++) incoming[r] = from_of(r) + group.thread;
#pragma unroll
  for (int done = 0; done < V; done += AT_ONCE) {
    uint4 own[AT_ONCE] = {}, before[AT_ONCE] = {}, from[AT_ONCE][N];
    bool has[AT_ONCE];
#pragma unroll
    for (int v = 0; v < AT_ONCE; v++) {
      has[v] = group.at(done + v) < n;
      if (G::HOLDS) {
        own[v] = held.partial[done + v];
        before[v] = held.residual[done + v];
      } else {
        if (has[v]) own[v] = x[group.at(done + v)];
        if (NORMS != norms::NONE && has[v]) before[v] = residual[group.at(done + v)];
      }
    }
    b.wait(a.timeout_ns, [&] {
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) {
#pragma unroll
        for (int r = 0; r < N; r++) {
          if (has[v] && r < a.n_ranks && r != a.rank)
            from[v][r] = yk_ptx::load_relaxed_sys16(incoming[r] + (done + v) * group.n_threads);
        }
      }
      int missing = -1;
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) {
#pragma unroll
        for (int r = N - 1; r >= 0; r--) {
          if (has[v] && r < a.n_ranks && r != a.rank && !has_arrived(from[v][r])) missing = r;
        }
      }
      return missing;
    });
#pragma unroll
    for (int v = 0; v < AT_ONCE; v++) {
      if (!has[v]) continue;
      uint4 &total = sum[done + v];
      if constexpr (std::is_same_v<T, int32_t>)
        total = reduce_integers<N>(a, from[v], sendable(own[v]));
      else if constexpr (std::is_same_v<T, float>)
        total = reduce_floats<N>(a, from[v], sendable(own[v]));
      else
        total = reduce_packet<T, N, NORMS>(a, from[v], sendable(own[v]), before[v]);
      also(group.at(done + v), total);
      if (!norms_sum<NORMS>(a)) residual[group.at(done + v)] = total;
#pragma unroll
      for (int r = 0; r < N; r++)
        if (r < a.n_ranks && r != a.rank) empty_slot(incoming[r] + (done + v) * group.n_threads);
    }
  }
}

/* The factor of the RMSNorm of a row in float32: 1 / root mean square of x. scratch, stopped: as in norm_row, which
 * contains a barrier of the group. */
template <typename T, typename G>
__device__ __forceinline__ float norm_factor(const launch_args &a, const G &group, const uint4 (&x)[G::V],
                                             float *scratch, bool &stopped)
{
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < G::V; v++) {
    if (group.at(v) >= a.row_packets) continue;
    const packet<T> p = packet<T>::of(x[v]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) squares += p.v[i] * p.v[i];
  }
  squares = yk_cuda::warp_sum(squares);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = squares;
  stopped = group.any(stopped);
  const int n_warps = group.n_threads / 32, lane = threadIdx.x % 32;
  const float total = yk_cuda::warp_sum(lane < n_warps ? scratch[group.index * n_warps + lane] : 0.0f);
  return rsqrtf(total * a.per_element + a.eps);
}

/* round(x * factor) * w, not rounded. */
template <typename T> __device__ __forceinline__ packet<T> normed(const uint4 &x, float factor, const uint4 &w)
{
  packet<T> p = packet<T>::of(x);
  const packet<T> weights = packet<T>::of(w);
#pragma unroll
  for (int i = 0; i < packet<T>::N; i++) p.v[i] = static_cast<float>(static_cast<T>(p.v[i] * factor)) * weights.v[i];
  return p;
}

/* RMSNorm of a row, x being its rounded residual: y = round(round(x * rsqrt(mean of squares + eps)) * w); does nothing
 * if w is NULL. weights: the thread's part of w, if it HOLDS them. scratch: callers alternate between two, so that one
 * barrier per row suffices. Returns whether a thread of the group has stopped waiting. */
template <typename T, typename G, norms NORMS>
__device__ __forceinline__ bool norm_row(const launch_args &a, const G &group, int row, const uint4 (&x)[G::V],
                                         const uint4 (&weights)[G::V], float *scratch, bool stopped)
{
  constexpr int V = G::V;
  if (NORMS == norms::NONE || !a.w) return group.any(stopped);
  uint4 w[V];
  if (!G::HOLDS) group.load(static_cast<const uint4 *>(a.w), a.row_packets, w);
  const float factor = norm_factor<T>(a, group, x, scratch, stopped);
  uint4 *y = static_cast<uint4 *>(a.y) + static_cast<int64_t>(row) * a.row_packets;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if (group.at(v) >= a.row_packets) continue;
    y[group.at(v)] = normed<T>(x[v], factor, G::HOLDS ? weights[v] : w[v]).rounded();
  }
  return stopped;
}

/* The norm of a row's sum over ranks, x, and the residual add, of which x becomes the rounded result. residual: the
 * thread's packets of the row's residual so far. weights: of the norm of the sum, if the thread HOLDS them. Called if
 * norms_sum; contains a barrier of the group. */
template <typename T, typename G>
__device__ __forceinline__ void add_normed_row(const launch_args &a, const G &group, int row,
                                               const uint4 (&residual)[G::V], const uint4 (&weights)[G::V],
                                               uint4 (&x)[G::V], float *scratch, bool &stopped)
{
  uint4 w[G::V];
  uint4 *to = static_cast<uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets;
  if (!G::HOLDS) group.load(static_cast<const uint4 *>(a.result_w), a.row_packets, w);
  const float factor = norm_factor<T>(a, group, x, scratch, stopped);
#pragma unroll
  for (int v = 0; v < G::V; v++) {
    if (group.at(v) >= a.row_packets) continue;
    const packet<T> result = packet<T>::of(normed<T>(x[v], factor, G::HOLDS ? weights[v] : w[v]).rounded());
    x[v] = add_to_residual<T, norms::BOTH>(a, packet<T>::of(residual[v]), result).rounded();
    to[group.at(v)] = x[v];
  }
}

/* The steps after the sum x of a row with norms::BOTH: its own norm with the residual add, if it has one, then the
 * norm of the residual. held: the thread's packets of the residual so far, if is_held; else these are in memory.
 * result_weights, weights: of the two norms, if the thread HOLDS them.
 * scratch: with a norm of the sum a row has two barriers, and the two halves of scratch alternate; else parity selects
 * the half. Returns as norm_row. */
template <typename T, typename G>
__device__ __forceinline__ bool finish_row(const launch_args &a, const G &group, int row, uint4 (&x)[G::V],
                                           bool is_held, const uint4 (&held)[G::V], const uint4 (&result_weights)[G::V],
                                           const uint4 (&weights)[G::V], float (&scratch)[2][32], int parity,
                                           bool stopped)
{
  if (!norms_sum<norms::BOTH>(a))
    return norm_row<T, G, norms::BOTH>(a, group, row, x, weights, scratch[parity], stopped);
  uint4 residual[G::V];
  if (is_held) {
#pragma unroll
    for (int v = 0; v < G::V; v++) residual[v] = held[v];
  } else {
    group.load(static_cast<const uint4 *>(a.residual) + static_cast<int64_t>(row) * a.row_packets, a.row_packets,
               residual);
  }
  add_normed_row<T>(a, group, row, residual, result_weights, x, scratch[0], stopped);
  return norm_row<T, G, norms::BOTH>(a, group, row, x, weights, scratch[1], stopped);
}

} // namespace yk_p2p_kernels

#endif
