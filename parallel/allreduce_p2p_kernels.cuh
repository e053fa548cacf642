/* allreduce_p2p_kernels.cuh - device code: see allreduce_p2p.h for the protocol.
 *
 * Why three sets of slots suffice: a block's launch i ends only after it has all of launch i from the others, so a rank
 * can be at most one launch ahead. While it fills set (i + 1) % 3, others may read set i % 3 and clear set (i - 1) % 3
 * = (i + 2) % 3, which is filled again by launch i + 2 at the earliest: after everybody has ended launch i. */
#ifndef YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH
#define YK_PARALLEL_ALLREDUCE_P2P_KERNELS_CUH

#include "kernels/cuda/overlap.cuh"
#include "parallel/allreduce_p2p.cuh"

namespace yk_p2p_kernels {

__device__ __forceinline__ void send(uint4 *dst, uint4 v)
{
  asm volatile("st.relaxed.sys.global.v4.u32 [%0], {%1,%2,%3,%4};" ::"l"(dst), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ __forceinline__ uint4 receive(const uint4 *src)
{
  uint4 v;
  asm volatile("ld.relaxed.sys.global.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(src)
               : "memory");
  return v;
}

__device__ __forceinline__ bool is_there(uint4 v)
{
  return v.x != ABSENT && v.y != ABSENT && v.z != ABSENT && v.w != ABSENT;
}

/* Words that mean "not there" as zeros. */
__device__ __forceinline__ uint4 sendable(uint4 v)
{
  return make_uint4(v.x == ABSENT ? 0 : v.x, v.y == ABSENT ? 0 : v.y, v.z == ABSENT ? 0 : v.z, v.w == ABSENT ? 0 : v.w);
}

__device__ __forceinline__ uint64_t nanoseconds()
{
  uint64_t t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

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

/* One launch as one block sees it. */
template <typename T> struct block_view {
  const launch_args &a;
  uint32_t n_launches, n_used_before;
  int set;
  bool dead;

  __device__ explicit block_view(const launch_args &args) : a(args)
  {
    const block_state s = a.state[blockIdx.x];
    n_launches = s.n_launches;
    n_used_before = s.n_packets_used;
    set = (int)(n_launches % N_SETS);
    dead = __syncthreads_or(*(volatile int32_t *)a.dead) != 0;
  }

  __device__ __forceinline__ uint4 *slot(const slots &s, int of_rank, int in_set, int source) const
  {
    return s.of_rank[of_rank] + (((int64_t)blockIdx.x * N_SETS + in_set) * a.n_ranks + source) * s.capacity;
  }

  /* Make the slots that the launch before has read ready for the launch after next. */
  __device__ void clear(const slots &s) const
  {
    const uint4 absent = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
    for (int source = 0; source < a.n_ranks; source++) {
      uint4 *dst = slot(s, a.rank, (set + N_SETS - 1) % N_SETS, source);
      for (uint32_t i = threadIdx.x; source != a.rank && i < n_used_before; i += blockDim.x) dst[i] = absent;
    }
  }

  /* Every thread of the block calls this when it has read all it wanted. */
  __device__ void end(uint32_t n_packets_used) const
  {
    __syncthreads();
    if (threadIdx.x == 0) a.state[blockIdx.x] = {n_launches + 1, n_packets_used};
  }

  __device__ void fail(int32_t why, int32_t missing)
  {
    dead = true;
    if (atomicCAS(a.dead, 0, why) != 0) return;
    a.page->rank[a.rank].missing = missing;
    a.page->rank[a.rank].n_launches = n_launches;
    __threadfence_system();
    a.page->rank[a.rank].failed = why;
  }

  /* Waits until ready() finds everything there; it returns a rank that is missing, or -1. */
  template <typename F> __device__ __forceinline__ void wait(uint64_t timeout_ns, F ready)
  {
    uint64_t began = 0;
    for (int n = 1; !dead; n++) {
      const int missing = ready();
      if (missing < 0) return;
      if (n % LOOK_UP_EVERY != 0) continue;
      const uint64_t now = nanoseconds();
      if (began == 0) began = now;
      if (*(volatile int32_t *)a.dead != 0)
        dead = true;
      else if (a.page->rank[a.rank].aborted)
        fail(2, -1);
      else if (now - began > timeout_ns)
        fail(1, missing);
    }
  }
};

/* The sum over the block. Callers alternate between two scratches, so that one barrier is enough. */
__device__ __forceinline__ float block_sum(float v, float *scratch)
{
  for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(~0u, v, offset);
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
  __syncthreads();
  float sum = 0.0f;
  for (int i = 0; i < (int)blockDim.x / 32; i++) sum += scratch[i];
  return sum;
}

/* The rank that is j places after this one, j < n_ranks. */
__device__ __forceinline__ int peer_at(const launch_args &a, int j)
{
  const int rank = a.rank + j;
  return rank < a.n_ranks ? rank : rank - a.n_ranks;
}

/* This thread's first packet of a row, if it has one. */
__device__ __forceinline__ uint4 first_packet(const launch_args &a, const void *rows, int64_t row)
{
  const int64_t i = row * a.row_packets + threadIdx.x;
  if (threadIdx.x >= (uint32_t)a.row_packets || i >= a.n_packets) return make_uint4(0, 0, 0, 0);
  return ((const uint4 *)rows)[i];
}

/* y = round(round(x * rsqrt(mean of squares + eps)) * w) of one row, x being the rounded residual. weights: this thread's,
 * if it has one packet. */
template <typename T, int V>
__device__ __forceinline__ void norm_row(const launch_args &a, int64_t row, const uint4 (&x)[V], const uint4 &weights,
                                         float *scratch)
{
  float squares = 0.0f;
#pragma unroll
  for (int v = 0; v < V; v++) {
    if (v * blockDim.x + threadIdx.x >= (uint32_t)a.row_packets) continue;
    const packet<T> p = packet<T>::of(x[v]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) squares += p.v[i] * p.v[i];
  }
  const float scale = rsqrtf(block_sum(squares, scratch) * a.per_element + a.eps);
#pragma unroll
  for (int v = 0; v < V; v++) {
    const int64_t at = (int64_t)v * blockDim.x + threadIdx.x;
    if (at >= a.row_packets) continue;
    packet<T> p = packet<T>::of(x[v]);
    const packet<T> w = packet<T>::of(V == 1 ? weights : ((const uint4 *)a.w)[at]);
#pragma unroll
    for (int i = 0; i < packet<T>::N; i++) p.v[i] = (float)(T)(p.v[i] * scale) * w.v[i];
    ((uint4 *)a.y)[row * a.row_packets + at] = p.rounded();
  }
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

/* Waits for a packet from every other rank and adds them up. from_of(r): where rank r's lies. */
template <typename T, int N, bool NORM, typename F>
__device__ __forceinline__ uint4 gather_sum(block_view<T> &b, F from_of, uint4 own, uint4 residual)
{
  const launch_args &a = b.a;
  uint4 from[N];
  b.wait(a.timeout_ns, [&] {
    int missing = -1;
#pragma unroll
    for (int r = 0; r < N; r++) {
      if (r < a.n_ranks && r != a.rank) from[r] = receive(from_of(r));
    }
#pragma unroll
    for (int r = N - 1; r >= 0; r--) {
      if (r < a.n_ranks && r != a.rank && !is_there(from[r])) missing = r;
    }
    return missing;
  });
  return add_up<T, N, NORM>(a, from, own, residual);
}

template <typename T, int N, int V, bool NORM>
__global__ void __launch_bounds__(MAX_THREADS) one_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  uint4 weights = {}, ahead = {}; /* weights depend on no kernel; the first row needs no block_view */
  if (NORM && V == 1 && a.w) weights = first_packet(a, a.w, 0);
  yk_cuda::let_next_kernel_start();
  yk_cuda::wait_for_previous_kernel();
  if (V == 1) ahead = first_packet(a, a.x, blockIdx.x);
  block_view<T> b(a);
  const uint4 *x = (const uint4 *)a.x;
  uint4 *residual = (uint4 *)a.residual;
  int64_t n_sent = 0;
  for (int64_t row = blockIdx.x; row < a.n_rows && !b.dead; row += gridDim.x, n_sent += a.row_packets) {
#pragma unroll
    for (int v = 0; v < V; v++) {
      const int64_t at = (int64_t)v * blockDim.x + threadIdx.x, i = row * a.row_packets + at;
      if (at >= a.row_packets || i >= a.n_packets) continue;
      const uint4 own = sendable(V == 1 && row == blockIdx.x ? ahead : x[i]);
#pragma unroll
      for (int j = 1; j < N; j++) {
        const int peer = peer_at(a, j);
        if (j < a.n_ranks) send(b.slot(a.first, peer, b.set, a.rank) + n_sent + at, own);
      }
    }
  }
  b.clear(a.first);
  int64_t n_read = 0;
  int parity = 0;
  for (int64_t row = blockIdx.x; row < a.n_rows && !b.dead; row += gridDim.x, n_read += a.row_packets, parity ^= 1) {
    uint4 sum[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
      const int64_t at = (int64_t)v * blockDim.x + threadIdx.x, i = row * a.row_packets + at;
      if (at >= a.row_packets || i >= a.n_packets) continue;
      const uint4 own = sendable(x[i]), before = NORM ? residual[i] : own;
      sum[v] = gather_sum<T, N, NORM>(
          b, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + n_read + at; }, own, before);
      residual[i] = sum[v];
    }
    b.dead = __syncthreads_or(b.dead);
    if (NORM && a.w) norm_row<T, V>(a, row, sum, weights, scratch[parity]);
  }
  b.end((uint32_t)n_sent);
}

/* Rows come in groups of n_ranks; row r of a group is added up by rank r. */
template <typename T, int N, int V, bool NORM>
__global__ void __launch_bounds__(MAX_THREADS) two_shot_kernel(const __grid_constant__ launch_args a)
{
  __shared__ float scratch[2][32];
  uint4 weights = {};
  if (NORM && V == 1 && a.w) weights = first_packet(a, a.w, 0);
  yk_cuda::let_next_kernel_start();
  yk_cuda::wait_for_previous_kernel();
  block_view<T> b(a);
  const uint4 *x = (const uint4 *)a.x;
  uint4 *residual = (uint4 *)a.residual;
  const int64_t n_groups = (a.n_rows + a.n_ranks - 1) / a.n_ranks;
  /* A result that does not come may wait for another rank, which whoever waits for its data is to name first. */
  const uint64_t result_timeout_ns = a.timeout_ns + (a.timeout_ns == UINT64_MAX ? 0 : a.timeout_ns / 4);
  int64_t n_sent = 0;
  for (int64_t group = blockIdx.x; group < n_groups && !b.dead; group += gridDim.x, n_sent += a.row_packets) {
#pragma unroll
    for (int i = 1; i < N; i++) {
      const int peer = peer_at(a, i);
      const int64_t row = group * a.n_ranks + peer;
      if (i >= a.n_ranks || row >= a.n_rows) continue;
#pragma unroll
      for (int v = 0; v < V; v++) {
        const int64_t at = (int64_t)v * blockDim.x + threadIdx.x, from = row * a.row_packets + at;
        if (at >= a.row_packets || from >= a.n_packets) continue;
        send(b.slot(a.first, peer, b.set, a.rank) + n_sent + at, sendable(x[from]));
      }
    }
  }
  b.clear(a.first);
  b.clear(a.second);
  int64_t n_read = 0;
  int parity = 0;
  for (int64_t group = blockIdx.x; group < n_groups && !b.dead; group += gridDim.x, n_read += a.row_packets) {
    const int64_t row = group * a.n_ranks + a.rank;
    if (row >= a.n_rows) continue;
    uint4 sum[V];
#pragma unroll
    for (int v = 0; v < V; v++) {
      const int64_t at = (int64_t)v * blockDim.x + threadIdx.x, i = row * a.row_packets + at;
      if (at >= a.row_packets || i >= a.n_packets) continue;
      const uint4 own = sendable(x[i]), before = NORM ? residual[i] : own;
      sum[v] = sendable(gather_sum<T, N, NORM>(
          b, [&](int r) { return b.slot(a.first, a.rank, b.set, r) + n_read + at; }, own, before));
#pragma unroll
      for (int j = 1; j < N; j++) {
        const int peer = peer_at(a, j);
        if (j < a.n_ranks) send(b.slot(a.second, peer, b.set, a.rank) + n_read + at, sum[v]);
      }
      residual[i] = sum[v];
    }
    b.dead = __syncthreads_or(b.dead);
    if (NORM && a.w) norm_row<T, V>(a, row, sum, weights, scratch[parity]);
    parity ^= 1;
  }
  n_read = 0;
  for (int64_t group = blockIdx.x; group < n_groups && !b.dead; group += gridDim.x, n_read += a.row_packets) {
    for (int j = 1; j < a.n_ranks; j++) {
      const int peer = peer_at(a, j);
      const int64_t row = group * a.n_ranks + peer;
      if (row >= a.n_rows) continue;
      uint4 sum[V];
#pragma unroll
      for (int v = 0; v < V; v++) {
        const int64_t at = (int64_t)v * blockDim.x + threadIdx.x, i = row * a.row_packets + at;
        if (at >= a.row_packets || i >= a.n_packets) continue;
        const uint4 *src = b.slot(a.second, a.rank, b.set, peer) + n_read + at;
        b.wait(result_timeout_ns, [&] {
          sum[v] = receive(src);
          return is_there(sum[v]) ? -1 : peer;
        });
        residual[i] = sum[v];
      }
      b.dead = __syncthreads_or(b.dead);
      if (NORM && a.w) norm_row<T, V>(a, row, sum, weights, scratch[parity]);
      parity ^= 1;
    }
  }
  b.end((uint32_t)n_sent);
}

using kernel = void (*)(launch_args);

inline cudaError_t launch_kernel(kernel which, const launch_args &a, bool two_shot, cudaStream_t stream)
{
  const int64_t n_items = two_shot ? (a.n_rows + a.n_ranks - 1) / a.n_ranks : a.n_rows;
  const int n_packets = a.row_packets < MAX_THREADS ? a.row_packets : MAX_THREADS;
  const dim3 grid((unsigned)(n_items < MAX_BLOCKS ? n_items : MAX_BLOCKS));
  return yk_cuda::launch_overlapped(which, {grid, (n_packets + 31) / 32 * 32, 0, 1}, stream, a);
}

template <typename T, int N, bool NORM> kernel kernel_of(bool two_shot, bool one_packet)
{
  if (two_shot) return one_packet ? two_shot_kernel<T, N, 1, NORM> : two_shot_kernel<T, N, MAX_PACKETS, NORM>;
  return one_packet ? one_shot_kernel<T, N, 1, NORM> : one_shot_kernel<T, N, MAX_PACKETS, NORM>;
}

template <typename T, bool NORM> kernel kernel_for(int n_ranks, bool two_shot, bool one_packet)
{
  if (n_ranks <= 2) return kernel_of<T, 2, NORM>(two_shot, one_packet);
  if (n_ranks <= 4) return kernel_of<T, 4, NORM>(two_shot, one_packet);
  return kernel_of<T, YK_MAX_RANKS, NORM>(two_shot, one_packet);
}

template <typename T, bool NORM> cudaError_t launch(const launch_args &a, bool two_shot, cudaStream_t stream)
{
  const kernel which = kernel_for<T, NORM>(a.n_ranks, two_shot, a.row_packets <= MAX_THREADS);
  return launch_kernel(which, a, two_shot, stream);
}

template <typename T, bool NORM> cudaError_t load(int n_ranks)
{
  cudaError_t rc = cudaSuccess;
  for (int i = 0; i < 4 && rc == cudaSuccess; i++) {
    cudaFuncAttributes attributes;
    const kernel which = kernel_for<T, NORM>(n_ranks, i & 1, i & 2);
    rc = cudaFuncGetAttributes(&attributes, which);
    /* As the products around it, lest a multiprocessor be divided anew. */
    if (rc == cudaSuccess)
      rc = cudaFuncSetAttribute(which, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  }
  return rc;
}

} // namespace yk_p2p_kernels

#endif
