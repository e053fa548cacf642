/* allreduce_p2p.cu - host side of the all-reduce: slots, peer access, launches. See allreduce_p2p.h. */
#include "parallel/p2p/allreduce_p2p.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "parallel/p2p/allreduce_p2p_launch.cuh"
#include "parallel/p2p/slices_p2p.cuh"

using namespace yk_p2p_kernels;

/* Common to the ends of one group in this process; freed with the last of them. Arrays are over its ranks. */
struct p2p_group {
  int n_ranks, first, n_local, first_of_all;
  int n_ends; /* atomic */
  yk_p2p_options options;
  int device[YK_P2P_MAX_RANKS];
  void *memory[YK_P2P_MAX_RANKS]; /* on each device: slots, then the thread blocks' counters and the device's flags */
  size_t state_offset;
  int64_t whole, first_part, second_part; /* packets of a slot: for one-shot; two-shot: partial sums, and results */
  host_flags *flags;
};

struct yk_p2p {
  p2p_group *group;
  int rank;
  /* [n_ranks] every rank's memory, at the address at which this rank's device reaches it */
  char *memory[YK_P2P_MAX_RANKS];
  slots whole, first, second;      /* in it */
  void *opened[YK_P2P_MAX_OPENED]; /* [n_opened] yk_p2p_open_memory */
  int n_opened;
};

static bool is_local(const p2p_group *g, int rank)
{
  return rank >= g->first && rank < g->first + g->n_local;
}

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
  for (int r = 0; r < g->n_local; r++) {
    if (g->memory[r]) cudaFree(g->memory[r]);
  }
  if (g->flags) cudaFreeHost(g->flags);
  free(g);
}

/* The number of a rank of this process in messages. */
static int shown(const p2p_group *g, int rank)
{
  return g->first_of_all + g->first + rank;
}

static yk_status open_peers(const p2p_group *g, int rank, yk_err *err)
{
  for (int r = 0; r < g->n_local; r++) {
    if (g->device[r] == g->device[rank]) continue;
    int can = 0;
    cudaError_t error = cudaDeviceCanAccessPeer(&can, g->device[rank], g->device[r]);
    YK_TRY(cuda_status(error, "cannot read whether peers have access", shown(g, rank), err));
    if (!can)
      return yk_err_set(err, YK_E_UNSUPPORTED, "devices %d and %d: cannot reach each other's memory", g->device[rank],
                        g->device[r]);
    error = cudaDeviceEnablePeerAccess(g->device[r], 0);
    if (error == cudaErrorPeerAccessAlreadyEnabled)
      cudaGetLastError(); /* not an error here: clear it */
    else
      YK_TRY(cuda_status(error, "cannot open peer access", shown(g, rank), err));
  }
  return YK_OK;
}

static cudaError_t load_kernels(int n_ranks)
{
  cudaError_t error = load<__half, norms::RESIDUAL>(n_ranks);
  if (error == cudaSuccess) error = load<__half, norms::BOTH>(n_ranks);
  if (error == cudaSuccess) error = load<__half, norms::NONE>(n_ranks);
  if (error == cudaSuccess) error = load<__nv_bfloat16, norms::RESIDUAL>(n_ranks);
  if (error == cudaSuccess) error = load<__nv_bfloat16, norms::BOTH>(n_ranks);
  if (error == cudaSuccess) error = load<__nv_bfloat16, norms::NONE>(n_ranks);
  if (error == cudaSuccess) error = load<float, norms::NONE>(n_ranks);
  if (error == cudaSuccess) error = load_await_writes();
  if (error == cudaSuccess) error = load_slices();
  return error == cudaSuccess ? load<int32_t, norms::NONE>(n_ranks) : error;
}

static yk_status open_rank(p2p_group *g, int rank, const yk_p2p_layout &layout, yk_err *err)
{
  cudaError_t error = cudaSetDevice(g->device[rank]);
  YK_TRY(cuda_status(error, "cannot use its device", shown(g, rank), err));
  YK_TRY(open_peers(g, rank, err));
  error = load_kernels(g->n_ranks);
  YK_TRY(cuda_status(error, "cannot load kernels", shown(g, rank), err));
  error = cudaMalloc(&g->memory[rank], static_cast<size_t>(layout.n_bytes));
  YK_TRY(cuda_status(error, "no memory for slots", shown(g, rank), err));
  error = cudaMemset(static_cast<char *>(g->memory[rank]) + g->state_offset, 0,
                     static_cast<size_t>(layout.n_bytes) - g->state_offset);
  fill_absent<<<512, 256>>>(static_cast<uint4 *>(g->memory[rank]), layout.n_slot_packets);
  if (error == cudaSuccess) error = cudaGetLastError();
  if (error == cudaSuccess) error = cudaDeviceSynchronize();
  return cuda_status(error, "cannot prepare slots", shown(g, rank), err);
}

static yk_status open_group(p2p_group *g, yk_err *err)
{
  const yk_p2p_layout layout = yk_p2p_layout_of(&g->options, g->n_ranks);
  g->whole = layout.one_shot_packets;
  g->first_part = g->second_part = layout.two_shot_packets;
  g->state_offset = static_cast<size_t>(layout.n_slot_packets) * 16;
  cudaError_t error = cudaHostAlloc(reinterpret_cast<void **>(&g->flags), sizeof *g->flags,
                                    cudaHostAllocPortable | cudaHostAllocMapped);
  YK_TRY(cuda_status(error, "no host memory", 0, err));
  *g->flags = {};
  for (int r = 0; r < g->n_local; r++) YK_TRY(open_rank(g, r, layout, err));
  return YK_OK;
}

/* Divides a rank's memory, as this end's device reaches it. */
static void set_memory(yk_p2p *end, int rank, void *memory)
{
  const p2p_group *g = end->group;
  const int64_t n_queues = static_cast<int64_t>(MAX_BLOCKS) * N_SETS * g->n_ranks;
  end->memory[rank] = static_cast<char *>(memory);
  end->whole.capacity = g->whole;
  end->first.capacity = g->first_part;
  end->second.capacity = g->second_part;
  end->whole.of_rank[rank] = static_cast<uint4 *>(memory);
  end->first.of_rank[rank] = end->whole.of_rank[rank] + n_queues * g->whole;
  end->second.of_rank[rank] = end->first.of_rank[rank] + n_queues * g->first_part;
}

static yk_status check_options(const yk_p2p_ranks *ranks, const yk_p2p_options *options, yk_err *err)
{
  if (ranks->n_ranks < 1 || ranks->n_ranks > YK_P2P_MAX_RANKS)
    return yk_err_set(err, YK_E_INVAL, "peer-to-peer all-reduce: %d ranks: expected 1 to %d", ranks->n_ranks,
                      static_cast<int>(YK_P2P_MAX_RANKS));
  if (options->max_bytes <= 0 || options->max_bytes > INT32_MAX || options->max_row_bytes <= 0 ||
      options->max_row_bytes > YK_P2P_MAX_ROW_BYTES || options->timeout_ms < 0)
    return yk_err_set(
        err, YK_E_INVAL,
        "peer-to-peer all-reduce: sizes must be positive, rows up to 32 KiB, all below 2 GiB, time limit not below 0");
  return YK_OK;
}

/* calloc instead of new: the library needs no C++ runtime. */
static yk_status create_ends(p2p_group *g, yk_p2p **out, yk_err *err)
{
  for (int i = 0; i < g->n_local; i++) {
    out[i] = static_cast<yk_p2p *>(calloc(1, sizeof *out[i]));
    if (!out[i]) {
      while (i > 0) {
        free(out[--i]);
        out[i] = nullptr;
      }
      return yk_err_set(err, YK_E_NOMEM, "peer-to-peer all-reduce: out of memory");
    }
    out[i]->group = g;
    out[i]->rank = g->first + i;
    for (int r = 0; r < g->n_local; r++) set_memory(out[i], g->first + r, g->memory[r]);
  }
  return YK_OK;
}

extern "C" yk_status yk_p2p_create(const yk_p2p_ranks *ranks, const yk_p2p_options *options, yk_p2p **out, yk_err *err)
{
  YK_TRY(check_options(ranks, options, err));
  p2p_group *g = static_cast<p2p_group *>(calloc(1, sizeof *g));
  if (!g) return yk_err_set(err, YK_E_NOMEM, "peer-to-peer all-reduce: out of memory");
  g->n_ranks = ranks->n_ranks;
  g->first = ranks->first;
  g->n_ends = g->n_local = ranks->n_local;
  g->first_of_all = ranks->first_of_all;
  g->options = *options;
  if (g->options.one_shot_bytes == 0) g->options.one_shot_bytes = yk_p2p_one_shot_default(g->n_ranks);
  for (int r = 0; r < g->n_local; r++) g->device[r] = ranks->cuda_devices[r];
  int current = 0;
  cudaGetDevice(&current);
  yk_status status = open_group(g, err);
  cudaSetDevice(current);
  if (status == YK_OK) status = create_ends(g, out, err);
  if (status != YK_OK) group_free(g);
  return status;
}

/* ---- Ranks of other processes ------------------------------------------------------------------------------------ */

static_assert(sizeof(cudaIpcMemHandle_t) == sizeof(yk_p2p_handle), "a handle is CUDA's");

static int device_of(const yk_p2p *end)
{
  return end->group->device[end->rank - end->group->first];
}

extern "C" yk_status yk_p2p_export_memory(const yk_p2p *end, void *memory, yk_p2p_handle *out, yk_err *err)
{
  int current = 0;
  cudaGetDevice(&current);
  cudaError_t error = cudaSetDevice(device_of(end));
  if (error == cudaSuccess) error = cudaIpcGetMemHandle(reinterpret_cast<cudaIpcMemHandle_t *>(out), memory);
  cudaGetLastError();
  cudaSetDevice(current);
  if (error == cudaSuccess) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: cannot share memory with other processes: %s", device_of(end),
                    cudaGetErrorString(error));
}

extern "C" yk_status yk_p2p_export(const yk_p2p *end, yk_p2p_handle *out, yk_err *err)
{
  return yk_p2p_export_memory(end, end->memory[end->rank], out, err);
}

/* Each device that opens a handle gets a separate address. */
static yk_status open_handle(const yk_p2p *end, const yk_p2p_handle *handle, void **out, yk_err *err)
{
  int current = 0;
  cudaIpcMemHandle_t of_cuda;
  memcpy(&of_cuda, handle, sizeof of_cuda);
  cudaGetDevice(&current);
  cudaError_t error = cudaSetDevice(device_of(end));
  if (error == cudaSuccess) error = cudaIpcOpenMemHandle(out, of_cuda, cudaIpcMemLazyEnablePeerAccess);
  cudaGetLastError();
  cudaSetDevice(current);
  if (error == cudaSuccess) return YK_OK;
  *out = nullptr;
  return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: cannot reach memory of another process: %s", device_of(end),
                    cudaGetErrorString(error));
}

extern "C" yk_status yk_p2p_open_memory(yk_p2p *end, const yk_p2p_handle *handle, void **opened, yk_err *err)
{
  if (end->n_opened == YK_P2P_MAX_OPENED)
    return yk_err_set(err, YK_E_INVAL, "peer-to-peer all-reduce: memories: expected at most %d, found more",
                      static_cast<int>(YK_P2P_MAX_OPENED));
  YK_TRY(open_handle(end, handle, opened, err));
  end->opened[end->n_opened++] = *opened;
  return YK_OK;
}

extern "C" yk_status yk_p2p_connect(yk_p2p *end, const yk_p2p_handle *handles, yk_err *err)
{
  for (int r = 0; r < end->group->n_ranks; r++) {
    void *memory = nullptr;
    if (is_local(end->group, r)) continue;
    YK_TRY(open_handle(end, &handles[r], &memory, err));
    set_memory(end, r, memory);
  }
  return YK_OK;
}

static void close_opened(const yk_p2p *end)
{
  int current = 0;
  cudaGetDevice(&current);
  cudaSetDevice(device_of(end));
  for (int r = 0; r < end->group->n_ranks; r++)
    if (!is_local(end->group, r) && end->memory[r]) cudaIpcCloseMemHandle(end->memory[r]);
  for (int i = 0; i < end->n_opened; i++) cudaIpcCloseMemHandle(end->opened[i]);
  cudaGetLastError();
  cudaSetDevice(current);
}

/* ---- Failure ----------------------------------------------------------------------------------------------------- */

extern "C" const yk_p2p_options *yk_p2p_get_options(const yk_p2p *end)
{
  return &end->group->options;
}

/* A time-out found by this end's kernels has priority over a time-out found by another end: an end that was aborted
 * because of another end has no record of the cause. The flags of other processes' ranks stay empty here. */
extern "C" yk_status yk_p2p_check(const yk_p2p *end, yk_err *err)
{
  const p2p_group *g = end->group;
  for (int i = 0; i < g->n_ranks; i++) {
    const int rank = (end->rank + i) % g->n_ranks;
    if (g->flags->rank[rank].failed != 1) continue;
    const int missing = g->flags->rank[rank].missing;
    char gpu[32] = "";
    if (is_local(g, missing)) snprintf(gpu, sizeof gpu, " (GPU %d)", g->device[missing - g->first]);
    if (err && err->code == YK_OK) err->rank = g->first_of_all + missing;
    return yk_err_set(err, YK_E_COMM, "rank %d waited %d ms for rank %d%s; see whether its process and GPU still run",
                      g->first_of_all + rank, g->options.timeout_ms, g->first_of_all + missing, gpu);
  }
  if (g->flags->rank[end->rank].failed != 0 || g->flags->rank[end->rank].aborted)
    return yk_err_set(err, YK_E_COMM, "communication was aborted because another rank failed");
  return YK_OK;
}

/* Pinned memory has one address on the host and on all devices. */
extern "C" yk_peer_wait yk_p2p_peer_wait(const yk_p2p *end)
{
  auto &flags = end->group->flags->rank[end->rank];
  const int64_t timeout_ms = end->group->options.timeout_ms;
  return {&flags.aborted, &flags.failed, &flags.missing,
          timeout_ms > 0 ? static_cast<uint64_t>(timeout_ms) * 1000000 : UINT64_MAX};
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
  close_opened(end);
  free(end);
  if (__atomic_sub_fetch(&g->n_ends, 1, __ATOMIC_ACQ_REL) == 0) group_free(g);
}

/* ---- Launches ---------------------------------------------------------------------------------------------------- */

static uint32_t *counters_of(const yk_p2p *end, int rank)
{
  return reinterpret_cast<uint32_t *>(end->memory[rank] + end->group->state_offset);
}

static device_flags *flags_of(const yk_p2p *end, int rank)
{
  return reinterpret_cast<device_flags *>(counters_of(end, rank) + 2 * MAX_BLOCKS);
}

/* The arguments that depend only on the end and the kernel. */
static launch_args args_of(const yk_p2p *end, bool two_shot)
{
  const p2p_group *g = end->group;
  launch_args a = {};
  a.rank = end->rank;
  a.n_ranks = g->n_ranks;
  a.first = two_shot ? end->first : end->whole;
  a.second = end->second;
  a.n_launches = counters_of(end, end->rank) + (two_shot ? MAX_BLOCKS : 0);
  a.stopped = &flags_of(end, end->rank)->stopped;
  a.flags = g->flags;
  a.timeout_ns = g->options.timeout_ms ? static_cast<uint64_t>(g->options.timeout_ms) * 1000000u : UINT64_MAX;
  return a;
}

template <typename T> static cudaError_t launch_rows(const launch_args &a, bool two_shot, cudaStream_t stream)
{
  return a.result_w || a.gain != 1.0f ? launch<T, norms::BOTH>(a, two_shot, stream)
                                      : launch<T, norms::RESIDUAL>(a, two_shot, stream);
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
  if (args->partial.state == YK_PARTIAL_SLOTS && (args->result_w || args->gain != 0.0f))
    return yk_err_set(err, YK_E_INVAL, "peer-to-peer all-reduce: a norm of the sum, or a gain: expected complete rows");
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
  a.result_w = args->result_w;
  a.gain = args->gain == 0.0f ? 1.0f : args->gain;
  const cudaError_t error =
      dtype == YK_F16 ? launch_rows<__half>(a, two_shot, stream) : launch_rows<__nv_bfloat16>(a, two_shot, stream);
  return cuda_status(error, "launch failed", end->group->first_of_all + end->rank, err);
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
  return cuda_status(launch<int32_t, norms::NONE>(a, false, stream), "launch failed",
                     end->group->first_of_all + end->rank, err);
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
  const cudaError_t error = dtype == YK_F16    ? launch<__half, norms::NONE>(a, two_shot, stream)
                            : dtype == YK_BF16 ? launch<__nv_bfloat16, norms::NONE>(a, two_shot, stream)
                                               : launch<float, norms::NONE>(a, two_shot, stream);
  return cuda_status(error, "launch failed", end->group->first_of_all + end->rank, err);
}

/* The arguments of n_ranks slices of together n_bytes. */
static yk_status slice_args(const yk_p2p *end, void *data, int64_t n_bytes, launch_args *out, yk_err *err)
{
  const p2p_group *g = end->group;
  const int64_t slice_bytes = n_bytes / g->n_ranks;
  int64_t row_bytes;
  YK_TRY(yk_p2p_check(end, err));
  if (!yk_p2p_takes_slices(&g->options, g->n_ranks, n_bytes))
    return yk_err_set(err, YK_E_UNSUPPORTED, "peer-to-peer all-reduce: %d slices of together %lld bytes", g->n_ranks,
                      static_cast<long long>(n_bytes));
  yk_p2p_route_of_array(&g->options, slice_bytes, &row_bytes);
  *out = array_args(end, static_cast<char *>(data) + end->rank * slice_bytes, slice_bytes, row_bytes, true);
  return YK_OK;
}

extern "C" yk_status yk_p2p_reduce_scatter(yk_p2p *end, void *data, int64_t n_bytes, yk_dtype dtype,
                                           cudaStream_t stream, yk_err *err)
{
  launch_args a;
  YK_TRY(slice_args(end, data, n_bytes, &a, err));
  if (dtype == YK_F32)
    return yk_err_set(err, YK_E_UNSUPPORTED, "peer-to-peer all-reduce: slices of %s", yk_dtype_name(dtype));
  return cuda_status(launch_reduce_scatter(a, dtype, stream), "launch failed", end->group->first_of_all + end->rank,
                     err);
}

extern "C" yk_status yk_p2p_all_gather(yk_p2p *end, void *data, int64_t n_bytes, cudaStream_t stream, yk_err *err)
{
  launch_args a;
  YK_TRY(slice_args(end, data, n_bytes, &a, err));
  return cuda_status(launch_all_gather(a, stream), "launch failed", end->group->first_of_all + end->rank, err);
}

extern "C" yk_status yk_p2p_await_writes(yk_p2p *end, cudaStream_t stream, yk_err *err)
{
  YK_TRY(yk_p2p_check(end, err));
  launch_args a = args_of(end, false);
  a.n_launches = &flags_of(end, end->rank)->n_await_launches;
  return cuda_status(launch_await_writes(a, flags_of(end, 0)->arrived, stream), "launch failed",
                     end->group->first_of_all + end->rank, err);
}
