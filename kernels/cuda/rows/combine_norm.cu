/* combine_norm.cu - see combine_norm.h. */
#include "kernels/cuda/rows/combine_norm.h"

#include <algorithm>

#include "kernels/cuda/common/elements.cuh"
#include "kernels/cuda/common/stage_ring.cuh"
#include "kernels/cuda/ptx/copy_async.cuh"
#include "kernels/cuda/ptx/thread_block.cuh"
#include "kernels/cuda/rows/launch.cuh"

using namespace yk_cuda;
using namespace yk_ptx;
using namespace yk_rows;

namespace {

constexpr int COMBINE_MANY_ROWS = 256; /* up to this number of rows, each row has its own resident thread block: the
                                        * kernel of norm.cu */
constexpr int STAGES = 2;
/* thread blocks per multiprocessor: a single one would leave it idle at times */
constexpr int MOST_SM_BLOCKS = 3, FEWEST_SM_BLOCKS = 2;
constexpr int COMBINE_MOST_THREADS = 1024; /* threads per multiprocessor: registers suffice for this number */
constexpr int MOST_CHOICES = 8;
/* maximum of a block in addition to its stages: static memory, and the system's */
constexpr size_t OWN_SHARED_BYTES = 2048;

struct combine_norm_params {
  yk_combine_args combine;
  void *y, *residual;
  const void *w;
  float alpha, eps, per_element; /* per_element: 1 / hidden */
};

/* In shared memory after the stages. */
struct stage_state {
  uint64_t full[STAGES];
  uint32_t present[STAGES]; /* bit j: choice j has a slot */
};

int n_sources(const yk_combine_args &combine)
{
  return combine.top_k + 1 + (combine.shared != nullptr);
}

size_t stage_bytes(const yk_combine_args &combine)
{
  return static_cast<size_t>(n_sources(combine)) * combine.hidden * 2;
}

/* Number of thread blocks that fit on a multiprocessor of the current device; 0 if unknown. */
int sm_blocks(const yk_combine_args &combine)
{
  int device = 0, sm_bytes = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&sm_bytes, cudaDevAttrMaxSharedMemoryPerMultiprocessor, device) != cudaSuccess)
    return 0;
  const int by_memory = static_cast<int>(sm_bytes / (STAGES * stage_bytes(combine) + OWN_SHARED_BYTES));
  return std::min({by_memory, COMBINE_MOST_THREADS / row_threads(combine.hidden / WIDE), MOST_SM_BLOCKS});
}

/* The sources of a row, copied by warp 0, one per lane: the slots of its choices, then the residual, then the shared
 * expert. */
struct row_sources {
  const combine_norm_params &p;
  char *stages;
  stage_state &state;
  int lane, stage_bytes, row_bytes;

  /* The lane's row of its source's array (of slots, residual or shared expert); -1: nothing to copy. */
  __device__ __forceinline__ int slot_of(int row) const
  {
    const int top_k = p.combine.top_k;
    if (row >= p.combine.n_tokens) return -1;
    if (lane < top_k) return __ldcg(p.combine.slot_of_choice + static_cast<int64_t>(row) * top_k + lane);
    return lane < top_k + 1 + (p.combine.shared != nullptr) ? row : -1;
  }

  /* Issues the copies of a row into a stage. slot: slot_of(row), loaded earlier. */
  __device__ __forceinline__ void copy(int row, int slot, int stage) const
  {
    if (row >= p.combine.n_tokens) return;
    const int top_k = p.combine.top_k;
    const void *base = lane < top_k ? p.combine.slots : lane == top_k ? p.residual : p.combine.shared;
    const uint32_t present = __ballot_sync(ALL_LANES, slot >= 0);
    if (lane == 0) {
      state.present[stage] = present;
      mbarrier_arrive_expect(&state.full[stage], __popc(present) * row_bytes);
    }
    __syncwarp();
    if (slot >= 0)
      bulk_copy(shared_address(stages + stage * stage_bytes + lane * row_bytes),
                static_cast<const char *>(base) + static_cast<int64_t>(slot) * row_bytes, row_bytes,
                &state.full[stage]);
  }
};

/* A vector of a row's combination of experts. from: the vector of the first source in the row's stage; sources are n
 * vectors apart. */
template <typename T>
__device__ __forceinline__ vec<T, WIDE> combine_stage(const combine_norm_params &p, const vec<T, WIDE> *from, int n,
                                                      uint32_t present, const float (&weight)[MOST_CHOICES],
                                                      float shared_factor)
{
  float sum[WIDE] = {};
#pragma unroll
  for (int j = 0; j < MOST_CHOICES; j++) {
    if (j >= p.combine.top_k) break;
    if (!(present >> j & 1)) continue;
    const vec<T, WIDE> v = from[j * n];
#pragma unroll
    for (int e = 0; e < WIDE; e++) sum[e] += weight[j] * to_float(v.at[e]);
  }
  if (p.combine.shared) {
    const vec<T, WIDE> v = from[(p.combine.top_k + 1) * n];
#pragma unroll
    for (int e = 0; e < WIDE; e++) sum[e] += to_float(v.at[e]) * shared_factor;
  }
  vec<T, WIDE> out;
#pragma unroll
  for (int e = 0; e < WIDE; e++) out.at[e] = from_float<T>(sum[e]);
  return out;
}

/* The weights of a row's choices and the gate of its shared expert, loaded a row ahead. */
struct row_weights {
  float of_choice[MOST_CHOICES], gate;

  __device__ __forceinline__ void load(const yk_combine_args &c, int row)
  {
    if (row >= c.n_tokens) return;
#pragma unroll
    for (int j = 0; j < MOST_CHOICES; j++)
      if (j < c.top_k) of_choice[j] = __ldcg(c.weights + static_cast<int64_t>(row) * c.top_k + j);
    if (c.shared_gate) gate = __ldcg(c.shared_gate + row * c.shared_gate_stride);
  }
};

template <typename T>
__global__ void __launch_bounds__(COMBINE_MOST_THREADS)
    combine_norm_kernel(const __grid_constant__ combine_norm_params p)
{
#if __CUDA_ARCH__ >= 900
  using V = vec<T, WIDE>;
  extern __shared__ __align__(128) char stages[];
  __shared__ stage_state state;
  __shared__ float sums[2][WARP]; /* used alternately: a slow warp may still read the sums of the previous row */
  const yk_combine_args &c = p.combine;
  const int n = c.hidden / WIDE, i = threadIdx.x, row_bytes = c.hidden * static_cast<int>(sizeof(T));
  const int n_staged = c.top_k + 1 + (c.shared != nullptr), step = static_cast<int>(gridDim.x);
  const bool is_first_warp = threadIdx.x < WARP, has_vector = i < n;
  const row_sources sources = {p, stages, state, static_cast<int>(threadIdx.x) % WARP, n_staged * row_bytes, row_bytes};
  V norm = {};
  if (p.w && has_vector) norm = static_cast<const V *>(p.w)[i];
  if (threadIdx.x == 0) {
    for (auto &full : state.full) mbarrier_init(&full, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  let_next_kernel_start();
  wait_for_previous_kernel();
  int row = static_cast<int>(blockIdx.x), slot = -1; /* slot: of the row that is copied next */
  if (is_first_warp) {
    for (int s = 0; s < STAGES; s++) sources.copy(row + s * step, sources.slot_of(row + s * step), s);
    slot = sources.slot_of(row + STAGES * step);
  }
  row_weights weights = {}, next = {};
  next.load(c, row);
  ring_position at;
  for (int parity = 0; row < c.n_tokens; row += step, parity ^= 1) {
    weights = next;
    next.load(c, row + step);
    const float gate = c.shared_gate ? 1.0f / (1.0f + expf(-weights.gate)) : 1.0f;
    V r = {};
    float squares = 0.0f;
    mbarrier_wait_loop(&state.full[at.stage], at.phase);
    if (has_vector) {
      const V *from = reinterpret_cast<const V *>(stages + at.stage * n_staged * row_bytes) + i;
      const V v = combine_stage(p, from, n, state.present[at.stage], weights.of_choice, gate);
      r = from[c.top_k * n];
#pragma unroll
      for (int e = 0; e < WIDE; e++) {
        r.at[e] = from_float<T>(to_float(r.at[e]) + p.alpha * to_float(v.at[e]));
        squares += to_float(r.at[e]) * to_float(r.at[e]);
      }
      static_cast<V *>(p.residual)[static_cast<int64_t>(row) * n + i] = r;
    }
    const float factor = rsqrtf(block_sum(squares, sums[parity]) * p.per_element + p.eps);
    if (is_first_warp) {
      sources.copy(row + STAGES * step, slot, at.stage);
      slot = sources.slot_of(row + (STAGES + 1) * step);
    }
    at.advance(STAGES);
    if (!p.w || !has_vector) continue;
#pragma unroll
    for (int e = 0; e < WIDE; e++)
      r.at[e] = from_float<T>(rounded<T>(to_float(r.at[e]) * factor) * to_float(norm.at[e]));
    static_cast<V *>(p.y)[static_cast<int64_t>(row) * n + i] = r;
  }
#endif
}

template <typename T> cudaError_t launch(const combine_norm_params &p, cudaStream_t stream)
{
  int device = 0, n_sms = 0;
  const size_t bytes = STAGES * stage_bytes(p.combine);
  const auto kernel = combine_norm_kernel<T>;
  cudaError_t error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&n_sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess)
    error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes));
  if (error != cudaSuccess) return error;
  return launch_with_max_shared_memory(kernel, std::min(p.combine.n_tokens, n_sms * sm_blocks(p.combine)),
                                       row_threads(p.combine.hidden / WIDE), bytes, stream, p);
}

} // namespace

extern "C" bool yk_cuda_combine_norm_takes(yk_dtype dtype, const yk_add_norm_args *args)
{
  const yk_combine_args *c = args->combine;
  if (!c || args->result_w || args->gain != 0.0f || args->n_partials != 1 || args->n_rows <= COMBINE_MANY_ROWS ||
      c->n_tokens != args->n_rows || c->hidden != args->hidden || c->hidden % WIDE != 0 ||
      c->hidden / WIDE > COMBINE_MOST_THREADS || c->top_k > MOST_CHOICES)
    return false;
  bool has_code = false;
  const void *kernel = dtype == YK_F16 ? reinterpret_cast<const void *>(combine_norm_kernel<__half>)
                                       : reinterpret_cast<const void *>(combine_norm_kernel<__nv_bfloat16>);
  return sm_blocks(*c) >= FEWEST_SM_BLOCKS && is_aligned(args->y, 16) && is_aligned(args->residual, 16) &&
         is_aligned(args->w, 16) && is_aligned(c->slots, 16) && is_aligned(c->shared, 16) &&
         has_code_for_90(kernel, &has_code) == cudaSuccess && has_code;
}

extern "C" cudaError_t yk_cuda_launch_combine_norm(yk_dtype dtype, const yk_add_norm_args *args, cudaStream_t stream)
{
  combine_norm_params p = {};
  p.combine = *args->combine;
  set_add_norm(p, *args);
  return dtype == YK_F16 ? launch<__half>(p, stream) : launch<__nv_bfloat16>(p, stream);
}
