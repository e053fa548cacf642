/* allreduce_p2p.cu - host side of the all-reduce: slots, peer access, launches. See allreduce_p2p.h. */
#include "parallel/p2p/allreduce_p2p.h"

#include <cstdlib>

#include "parallel/p2p/allreduce_p2p_launch.cuh"

using namespace yk_p2p_kernels;

/* Common to the ends of one group; freed with the last of them. */
struct p2p_group {
  int n_ranks;
  int n_ends; /* atomic */
  yk_p2p_options options;
  int device[YK_P2P_MAX_RANKS];
  void *memory[YK_P2P_MAX_RANKS]; /* on each device: slots, then the thread blocks' counters and the device's flags */
  size_t state_offset;
  slots whole, first, second; /* for one-shot; for two-shot: partial sums, and results */
  host_flags *flags;
};

struct yk_p2p {
  p2p_group *group;
  int rank;
};

static yk_status cuda_status(cudaError_t error, const char *what, int rank, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  const yk_status code = error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE;
  return yk_err_set(err, code, "peer-to-peer all-reduce, rank %d: %s: %s", rank, what, cudaGetErrorString(error));
}

static __global__ void fill_absent(uint4 *dst, int64_t n)
{
  for (int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x; i < n;
       i += static_cast<int64_t>(gridDim.x) * blockDim.x)
    dst[i] = make_uint4(ABSENT, ABSENT, ABSENT, ABSENT);
}

static void group_free(p2p_group *g)
{
  for (int r = 0; r < g->n_ranks; r++) {
    if (g->memory[r]) cudaFree(g->memory[r]);
  }
  if (g->flags) cudaFreeHost(g->flags);
  free(g);
}

static yk_status open_peers(const p2p_group *g, int rank, yk_err *err)
{
  for (int r = 0; r < g->n_ranks; r++) {
    if (g->device[r] == g->device[rank]) continue;
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, g->device[rank], g->device[r]);
    YK_TRY(cuda_status(error, "cannot read whether peers have access", rank, err));
    if (!can)
      return yk_err_set(err, YK_E_UNSUPPORTED, "devices %d and %d: cannot reach each other's memory", g->device[rank],
                        g->device[r]);
    error = cudaDeviceEnablePeerAccess(g->device[r], 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError(); /* not an error here: clear it */
    else
      YK_TRY(cuda_status(error, "cannot open peer access", rank, err));
  }
  return YK_OK;
}

static cudaError_t load_kernels(int n_ranks)
{
  cudaError_t error = load<__half, true>(n_ranks);
  if (error == cudaSuccess) error = load<__half, false>(n_ranks);
  if (error == cudaSuccess) error = load<__nv_bfloat16, true>(n_ranks);
  if (error == cudaSuccess) error = load<__nv_bfloat16, false>(n_ranks);
  if (error == cudaSuccess) error = load<float, false>(n_ranks);
  if (error == cudaSuccess) error = load_await_writes();
  return error == cudaSuccess ? load<int32_t, false>(n_ranks) : error;
}

static yk_status open_rank(p2p_group *g, int rank, const yk_p2p_layout &layout, yk_err *err)
{
  cudaError_t error = cudaSetDevice(g->device[rank]);
  YK_TRY(cuda_status(error, "cannot use its device", rank, err));
  YK_TRY(open_peers(g, rank, err));
  error = load_kernels(g->n_ranks);
  YK_TRY(cuda_status(error, "cannot load kernels", rank, err));
  error = cudaMalloc(&g->memory[rank], static_cast<size_t>(layout.n_bytes));
  YK_TRY(cuda_status(error, "no memory for slots", rank, err));
  error = cudaMemset(static_cast<char *>(g->memory[rank]) + g->state_offset, 0,
                     static_cast<size_t>(layout.n_bytes) - g->state_offset);
  fill_absent<<<512, 256>>>(static_cast<uint4 *>(g->memory[rank]), layout.n_slot_packets);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return cuda_status(error, "cannot prepare slots", rank, err);
}

static yk_status open_group(p2p_group *g, yk_err *err)
{
  const yk_p2p_layout layout = yk_p2p_layout_of(&g->options, g->n_ranks);
  const int64_t n_queues = static_cast<int64_t>(MAX_BLOCKS) * N_SETS * g->n_ranks;
  g->whole.capacity = layout.one_shot_packets;
  g->first.capacity = g->second.capacity = layout.two_shot_packets;
  g->state_offset = static_cast<size_t>(layout.n_slot_packets) * 16;
  cudaError_t error = cudaHostAlloc(reinterpret_cast<void **>(&g->flags), sizeof *g->flags,
                                    cudaHostAllocPortable | cudaHostAllocMapped);
  YK_TRY(cuda_status(error, "no host memory", 0, err));
  *g->flags = {};
  for (int r = 0; r < g->n_ranks; r++) {
    YK_TRY(open_rank(g, r, layout, err));
    g->whole.of_rank[r] = static_cast<uint4 *>(g->memory[r]);
    g->first.of_rank[r] = g->whole.of_rank[r] + n_queues * g->whole.capacity;
    g->second.of_rank[r] = g->first.of_rank[r] + n_queues * g->first.capacity;
  }
  return YK_OK;
}

extern "C" yk_status yk_p2p_create(const int *cuda_devices, int n_ranks, const yk_p2p_options *options, yk_p2p **out,
                                   yk_err *err)
{
  if (n_ranks < 1 || n_ranks > YK_P2P_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "peer-to-peer all-reduce: %d ranks: expected 1 to %d", n_ranks,
                      static_cast<int>(YK_P2P_MAX_RANKS));
  if (options->max_bytes <= 0 || options->max_bytes > INT32_MAX || options->max_row_bytes <= 0 ||
      options->max_row_bytes > YK_P2P_MAX_ROW_BYTES || options->timeout_ms < 0)
    return yk_err_set(
        err, YK_E_INVAL,
        "peer-to-peer all-reduce: sizes must be positive, rows up to 32 KiB, all below 2 GiB, time limit not below 0");
  /* calloc instead of new: the library needs no C++ runtime */
  p2p_group *g = static_cast<p2p_group *>(calloc(1, sizeof *g));
  if (!g) return yk_err_set(err, YK_E_NOMEM, "peer-to-peer all-reduce: out of memory");
  g->n_ranks = n_ranks;
  g->n_ends = n_ranks;
  g->options = *options;
  if (g->options.one_shot_bytes == 0) g->options.one_shot_bytes = yk_p2p_one_shot_default(n_ranks);
  for (int r = 0; r < n_ranks; r++) g->device[r] = cuda_devices[r];
  int current = 0;
  cudaGetDevice(&current);
  yk_status status = open_group(g, err);
  cudaSetDevice(current);
  for (int r = 0; status == YK_OK && r < n_ranks; r++) {
    out[r] = static_cast<yk_p2p *>(calloc(1, sizeof *out[r]));
    if (out[r]) {
      *out[r] = {g, r};
      continue;
    }
    while (r > 0) {
      free(out[--r]);
      out[r] = nullptr;
    }
    status = yk_err_set(err, YK_E_NOMEM, "peer-to-peer all-reduce: out of memory");
    break;
  }
  if (status != YK_OK) group_free(g);
  return status;
}

extern "C" const yk_p2p_options *yk_p2p_get_options(const yk_p2p *end)
{
  return &end->group->options;
}

/* A time-out found by this end's kernels comes first, then one found by another end's: an end that was aborted because
 * of the latter has no record of the cause. */
extern "C" yk_status yk_p2p_check(const yk_p2p *end, yk_err *err)
{
  const p2p_group *g = end->group;
  for (int i = 0; i < g->n_ranks; i++) {
    const int rank = (end->rank + i) % g->n_ranks;
    if (g->flags->rank[rank].failed != 1) continue;
    const int missing = g->flags->rank[rank].missing;
    if (err && err->code == YK_OK) err->rank = missing;
    return yk_err_set(err, YK_E_COMM,
                      "rank %d waited %d ms for rank %d (GPU %d), which did not reach launch %u; see whether its "
                      "process and GPU still run",
                      rank, g->options.timeout_ms, missing, g->device[missing],
                      static_cast<unsigned>(g->flags->rank[rank].n_launches));
  }
  if (g->flags->rank[end->rank].failed != 0 || g->flags->rank[end->rank].aborted)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  return YK_OK;
}

extern "C" void yk_p2p_give_up(yk_p2p *end)
{
  end->group->flags->rank[end->rank].aborted = 1;
}

extern "C" void yk_p2p_abort(yk_p2p *end)
{
  for (int r = 0; r < end->group->n_ranks; r++) end->group->flags->rank[r].aborted = 1;
}

extern "C" void yk_p2p_destroy(yk_p2p *end)
{
  if (!end) return;
  p2p_group *g = end->group;
  free(end);
  if (__atomic_sub_fetch(&g->n_ends, 1, __ATOMIC_ACQ_REL) == 0) group_free(g);
}

static uint32_t *counters_of(const p2p_group *g, int rank)
{
  return reinterpret_cast<uint32_t *>(static_cast<char *>(g->memory[rank]) + g->state_offset);
}

static device_flags *flags_of(const p2p_group *g, int rank)
{
  return reinterpret_cast<device_flags *>(counters_of(g, rank) + 2 * MAX_BLOCKS);
}

/* The arguments that depend only on the end and the kernel. */
static launch_args args_of(const yk_p2p *end, bool two_shot)
{
  const p2p_group *g = end->group;
  launch_args a = {};
  a.rank = end->rank;
  a.n_ranks = g->n_ranks;
  a.first = two_shot ? g->first : g->whole;
  a.second = g->second;
  a.n_launches = counters_of(g, end->rank) + (two_shot ? MAX_BLOCKS : 0);
  a.stopped = &flags_of(g, end->rank)->stopped;
  a.flags = g->flags;
  a.timeout_ns = g->options.timeout_ms ? static_cast<uint64_t>(g->options.timeout_ms) * 1000000u : UINT64_MAX;
  return a;
}

extern "C" yk_status yk_p2p_all_reduce_add_norm(yk_p2p *end, const yk_all_reduce_add_norm_args *args, yk_dtype dtype,
                                                cudaStream_t stream, yk_err *err)
{
  const int64_t row_bytes = static_cast<int64_t>(args->hidden) * 2;
  if (args->n_rows <= 0) return YK_OK;
  YK_TRY(yk_p2p_check(end, err));
  const yk_p2p_route route = yk_p2p_route_of_rows(&end->group->options, args->n_rows, row_bytes);
  if (dtype == YK_F32 || route == YK_P2P_NONE)
    return yk_err_set(err, YK_E_UNSUPPORTED, "peer-to-peer all-reduce: %d rows of %d %s", args->n_rows, args->hidden,
                      yk_dtype_name(dtype));
  const bool two_shot = route == YK_P2P_TWO_SHOT;
  launch_args a = args_of(end, two_shot);
  a.x = args->partial.rows;
  if (args->partial.state == YK_PARTIAL_SLOTS) a.combine = args->partial.slots;
  a.late_next = args->reader == YK_READER_ROUTER && args->n_rows > 1;
  a.residual = args->residual;
  a.y = args->y;
  a.w = args->w;
  a.n_rows = args->n_rows;
  a.row_packets = static_cast<int32_t>(row_bytes / 16);
  a.n_packets = a.n_rows * a.row_packets;
  a.per_element = 1.0f / static_cast<float>(args->hidden);
  a.alpha = args->alpha;
  a.eps = args->eps;
  const cudaError_t error =
      dtype == YK_F16 ? launch<__half, true>(a, two_shot, stream) : launch<__nv_bfloat16, true>(a, two_shot, stream);
  return cuda_status(error, "launch failed", end->rank, err);
}

/* The arguments of an array of n_bytes without rows, cut into rows of row_bytes. */
static launch_args array_args(const yk_p2p *end, void *data, int64_t n_bytes, int64_t row_bytes, bool two_shot)
{
  const int64_t n_packets = n_bytes / 16;
  launch_args a = args_of(end, two_shot);
  a.x = a.residual = data;
  a.row_packets = static_cast<int32_t>(row_bytes / 16);
  a.n_rows = static_cast<int32_t>((n_packets + a.row_packets - 1) / a.row_packets);
  a.n_packets = static_cast<int32_t>(n_packets);
  return a;
}

extern "C" yk_status yk_p2p_all_reduce_i32(yk_p2p *end, int32_t *data, int64_t count, yk_reduction reduction,
                                           cudaStream_t stream, yk_err *err)
{
  const int64_t n_bytes = count * static_cast<int64_t>(sizeof *data);
  int64_t row_bytes;
  if (count <= 0) return YK_OK;
  YK_TRY(yk_p2p_check(end, err));
  if (yk_p2p_route_of_array(&end->group->options, n_bytes, &row_bytes) != YK_P2P_ONE_SHOT)
    return yk_err_set(err, YK_E_UNSUPPORTED, "peer-to-peer all-reduce: %lld integers", static_cast<long long>(count));
  launch_args a = array_args(end, data, n_bytes, row_bytes, false);
  a.is_max = reduction == YK_REDUCE_MAX;
  return cuda_status(launch<int32_t, false>(a, false, stream), "launch failed", end->rank, err);
}

extern "C" yk_status yk_p2p_all_reduce(yk_p2p *end, void *data, int64_t count, yk_dtype dtype, cudaStream_t stream,
                                       yk_err *err)
{
  const int64_t n_bytes = count * static_cast<int64_t>(yk_dtype_bytes(dtype));
  if (count <= 0) return YK_OK;
  YK_TRY(yk_p2p_check(end, err));
  int64_t row_bytes;
  const yk_p2p_route route = yk_p2p_route_of_array(&end->group->options, n_bytes, &row_bytes);
  if (route == YK_P2P_NONE)
    return yk_err_set(err, YK_E_UNSUPPORTED, "peer-to-peer all-reduce: %lld values of %s",
                      static_cast<long long>(count), yk_dtype_name(dtype));
  const bool two_shot = route == YK_P2P_TWO_SHOT;
  const launch_args a = array_args(end, data, n_bytes, row_bytes, two_shot);
  const cudaError_t error = dtype == YK_F16    ? launch<__half, false>(a, two_shot, stream)
                            : dtype == YK_BF16 ? launch<__nv_bfloat16, false>(a, two_shot, stream)
                                               : launch<float, false>(a, two_shot, stream);
  return cuda_status(error, "launch failed", end->rank, err);
}

extern "C" yk_status yk_p2p_await_writes(yk_p2p *end, cudaStream_t stream, yk_err *err)
{
  YK_TRY(yk_p2p_check(end, err));
  launch_args a = args_of(end, false);
  a.n_launches = &flags_of(end->group, end->rank)->n_await_launches;
  return cuda_status(launch_await_writes(a, flags_of(end->group, 0)->arrived, stream), "launch failed", end->rank, err);
}
