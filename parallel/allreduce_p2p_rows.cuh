/* allreduce_p2p_rows.cuh - device code: rows of packets, added up and normalised by teams of threads. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_ROWS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_ROWS_CUH

#include "parallel/allreduce_p2p_slots.cuh"

namespace yk_p2p_kernels {

/* A packet as numbers: 8 of 16 bits or 4 of 32. */
template <typename T> struct packet {
  static constexpr int N = 16 / (int)sizeof(T);
  float v[N];

  __device__ __forceinline__ static packet of(uint4 bits)
  {
    packet p;
    const T *t = (const T *)&bits;
#pragma unroll
    for (int i = 0; i < N; i++) p.v[i] = (float)t[i];
    return p;
  }

  __device__ __forceinline__ uint4 rounded() const
  {
    uint4 bits;
    T *t = (T *)&bits;
#pragma unroll
    for (int i = 0; i < N; i++) t[i] = (T)v[i];
    return bits;
  }
};

/* The threads of a block that take a row together. A block of several teams has as many rows under way at once: the time of a
 * row is mostly waiting for memory. V: packets of a row that a thread holds, n_threads apart. */
template <int V> struct row_team {
  int n_threads, n_teams, index, thread;

  __device__ explicit row_team(const launch_args &a)
  {
    n_threads = V == 1 ? blockDim.x : a.team_threads;
    n_teams = V == 1 ? 1 : blockDim.x / n_threads;
    index = V == 1 ? 0 : threadIdx.x / n_threads;
    thread = threadIdx.x - index * n_threads;
  }

  /* Where the thread's packet v lies in a row. */
  __device__ __forceinline__ int at(int v) const
  {
    return v * n_threads + thread;
  }

  /* This thread's packets of a row of n; zeros beyond. */
  __device__ __forceinline__ void load(const uint4 *row, int n, uint4 (&x)[V]) const
  {
#pragma unroll
    for (int v = 0; v < V; v++) x[v] = at(v) < n ? row[at(v)] : make_uint4(0, 0, 0, 0);
  }

  /* Whether it is so for any thread of the team; a barrier. */
  __device__ __forceinline__ bool any(bool mine) const
  {
    if (V == 1) return __syncthreads_or(mine) != 0;
    int is;
    asm volatile("{\n"
                 ".reg .pred p, q;\n"
                 "setp.ne.s32 p, %1, 0;\n"
                 "barrier.cta.red.or.pred q, %2, %3, p;\n"
                 "selp.s32 %0, 1, 0, q;\n"
                 "}"
                 : "=r"(is)
                 : "r"((int)mine), "r"(index + 1), "r"(n_threads)
                 : "memory");
    return is != 0;
  }
};

/* Packets of a row; of an array's last one there may be fewer. */
template <bool NORM> __device__ __forceinline__ int packets_of(const launch_args &a, int row)
{
  return NORM ? a.row_packets : min(a.row_packets, a.n_packets - row * a.row_packets);
}

/* The sum in rank order of what came and what is ours, times alpha and on top of the residual where NORM. */
template <typename T, int N, bool NORM>
__device__ __forceinline__ uint4 add_up(const launch_args &a, const uint4 (&from)[N], uint4 own, uint4 residual)
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
  if (NORM) {
    const packet<T> p = packet<T>::of(residual);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) sum.v[i] = p.v[i] + a.alpha * sum.v[i];
  }
  return sum.rounded();
}

/* Waits for a row of every other rank, adds them up and stores the sum. from_of(r): where rank r's row comes in.
 * also(at, packet) is called with every packet of the sum and its place, and may change it. */
template <typename T, int N, int V, bool NORM, typename F, typename G>
__device__ __forceinline__ void sum_row(block_view &b, const row_team<V> &team, int row, uint4 (&sum)[V], F from_of,
                                        G also)
{
  constexpr int AT_ONCE = N <= 2 ? V : N <= 4 && V > 1 ? 2 : 1; /* what registers hold */
  const launch_args &a = b.a;
  const uint4 *x = (const uint4 *)a.x + (int64_t)row * a.row_packets;
  uint4 *residual = (uint4 *)a.residual + (int64_t)row * a.row_packets;
  const int n = packets_of<NORM>(a, row);
  const uint4 *incoming[N];
#pragma unroll
  for (int r = 0; r < N; r++) incoming[r] = from_of(r) + team.thread;
#pragma unroll
  for (int done = 0; done < V; done += AT_ONCE) {
    uint4 own[AT_ONCE] = {}, before[AT_ONCE] = {}, from[AT_ONCE][N];
    bool has[AT_ONCE];
#pragma unroll
    for (int v = 0; v < AT_ONCE; v++) {
      has[v] = team.at(done + v) < n;
      if (has[v]) own[v] = x[team.at(done + v)];
      if (NORM && has[v]) before[v] = residual[team.at(done + v)];
    }
    b.wait(a.timeout_ns, [&] {
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) {
#pragma unroll
        for (int r = 0; r < N; r++) {
          if (has[v] && r < a.n_ranks && r != a.rank) from[v][r] = receive(incoming[r] + (done + v) * team.n_threads);
        }
      }
      int missing = -1;
#pragma unroll
      for (int v = 0; v < AT_ONCE; v++) {
#pragma unroll
        for (int r = N - 1; r >= 0; r--) {
          if (has[v] && r < a.n_ranks && r != a.rank && !is_there(from[v][r])) missing = r;
        }
      }
      return missing;
    });
#pragma unroll
    for (int v = 0; v < AT_ONCE; v++) {
      if (!has[v]) continue;
      uint4 &total = sum[done + v];
      total = add_up<T, N, NORM>(a, from[v], sendable(own[v]), before[v]);
      also(team.at(done + v), total);
      residual[team.at(done + v)] = total;
    }
  }
}

/* Ends a team's row, x being the rounded residual: y = round(round(x * rsqrt(mean of squares + eps)) * w), where it is to be
 * normalised. weights: this thread's, where it has one packet. Callers alternate between two scratches, so that one barrier is
 * enough. Returns whether a thread of the team has given up. */
template <typename T, int V, bool NORM>
__device__ __forceinline__ bool end_row(const launch_args &a, const row_team<V> &team, int row, const uint4 (&x)[V],
                                        const uint4 (&weights)[V], float *scratch, bool dead)
{
  if (!NORM || !a.w) return team.any(dead);
  uint4 w[V];
  if (V > 1) team.load((const uint4 *)a.w, a.row_packets, w);
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if (team.at(v) >= a.row_packets) continue;
    const packet<T> p = packet<T>::of(x[v]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) squares += p.v[i] * p.v[i];
  }
  for (int offset = 16; offset > 0; offset /= 2) squares += __shfl_xor_sync(~0u, squares, offset);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = squares;
  dead = team.any(dead);
  float total = 0.0f;
  for (int i = 0; i < team.n_threads / 32; i++) total += scratch[team.index * (team.n_threads / 32) + i];
  const float scale = rsqrtf(total * a.per_element + a.eps);
  uint4 *y = (uint4 *)a.y + (int64_t)row * a.row_packets;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if (team.at(v) >= a.row_packets) continue;
    packet<T> p = packet<T>::of(x[v]);
    const packet<T> factor = packet<T>::of(V == 1 ? weights[v] : w[v]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) p.v[i] = (float)(T)(p.v[i] * scale) * factor.v[i];
    y[team.at(v)] = p.rounded();
  }
  return dead;
}

} // namespace yk_p2p_kernels

#endif
