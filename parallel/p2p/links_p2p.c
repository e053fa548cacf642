#include "parallel/p2p/links_p2p.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"

/* Copies of a timed chain, large and small; number of bytes that are compared. */
enum { N_LARGE = 8, SMALL_BYTES = 4, N_SMALL = 100, CHECKED_BYTES = 1 << 20 };

/* One direction. Owner: the test. */
typedef struct link_bench {
  int from, to;
  void *src, *dst; /* [YK_P2P_LINK_BYTES] on GPUs from and to */
  uint32_t *sent, *arrived;
  cudaStream_t stream; /* on GPU from */
  cudaEvent_t begin, end;
} link_bench;

static yk_status check(const link_bench *b, cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  cudaGetLastError(); /* reported here: a later check must not find it */
  return yk_err_set(err, error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE, "GPU %d to GPU %d: %s: %s",
                    b->from, b->to, what, cudaGetErrorString(error));
}

yk_status yk_p2p_link_query(int from, int to, bool *peer_access, yk_err *err)
{
  const link_bench b = {.from = from, .to = to};
  int can = 0;
  YK_TRY(check(&b, cudaDeviceCanAccessPeer(&can, from, to), "peer access", err));
  *peer_access = can != 0;
  return YK_OK;
}

static yk_status wait_for(const link_bench *b, cudaEvent_t event, yk_err *err)
{
  const double limit_s = 2;
  const struct timespec pause = {0, 20000};
  int64_t start_ns = yk_clock_now_ns();
  for (;;) {
    cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return check(b, error, "copy", err);
    cudaGetLastError();
    if (yk_clock_seconds_since(start_ns) > limit_s)
      return yk_err_set(err, YK_E_TIMEOUT, "GPU %d to GPU %d: a copy did not end within %g s", b->from, b->to, limit_s);
    nanosleep(&pause, NULL);
  }
}

/* Microseconds of one copy, in a chain of n after one untimed copy. */
static yk_status time_copies(const link_bench *b, size_t n_bytes, int n, double *us, yk_err *err)
{
  float ms = 0;
  for (int i = -1; i < n; i++) {
    if (i == 0) YK_TRY(check(b, cudaEventRecord(b->begin, b->stream), "event", err));
    YK_TRY(check(b, cudaMemcpyPeerAsync(b->dst, b->to, b->src, b->from, n_bytes, b->stream), "copy", err));
  }
  YK_TRY(check(b, cudaEventRecord(b->end, b->stream), "event", err));
  YK_TRY(wait_for(b, b->end, err));
  YK_TRY(check(b, cudaEventElapsedTime(&ms, b->begin, b->end), "event", err));
  *us = (double)ms * 1e3 / n;
  return YK_OK;
}

/* Copies random bytes, different for each link, and compares the received bytes. */
static yk_status check_bytes(const link_bench *b, yk_err *err)
{
  const double scale = 4294967040.0; /* the largest float32 below 2^32 */
  for (uint32_t i = 0; i < CHECKED_BYTES / sizeof *b->sent; i++)
    b->sent[i] = (uint32_t)(yk_rng_uniform((uint64_t)b->from + 1, (uint32_t)b->to, i) * scale);
  YK_TRY(check(b, cudaSetDevice(b->to), "select", err));
  YK_TRY(check(b, cudaMemset(b->dst, 0xff, CHECKED_BYTES), "clearing", err));
  YK_TRY(check(b, cudaDeviceSynchronize(), "clearing", err));
  YK_TRY(check(b, cudaSetDevice(b->from), "select", err));
  YK_TRY(check(b, cudaMemcpy(b->src, b->sent, CHECKED_BYTES, cudaMemcpyHostToDevice), "upload", err));
  YK_TRY(check(b, cudaDeviceSynchronize(), "upload", err));
  YK_TRY(check(b, cudaMemcpyPeerAsync(b->dst, b->to, b->src, b->from, CHECKED_BYTES, b->stream), "copy", err));
  YK_TRY(check(b, cudaEventRecord(b->end, b->stream), "event", err));
  YK_TRY(wait_for(b, b->end, err));
  YK_TRY(check(b, cudaSetDevice(b->to), "select", err));
  YK_TRY(check(b, cudaMemcpy(b->arrived, b->dst, CHECKED_BYTES, cudaMemcpyDeviceToHost), "download", err));
  YK_TRY(check(b, cudaSetDevice(b->from), "select", err));
  if (memcmp(b->sent, b->arrived, CHECKED_BYTES) == 0) return YK_OK;
  return yk_err_set(err, YK_E_DEVICE,
                    "GPU %d to GPU %d: expected the bytes that were sent, found others: the link is broken", b->from,
                    b->to);
}

/* Gives a GPU access to the other's memory, as the engine's communicator does, if that is possible. */
static yk_status open_access(const link_bench *b, int from, int to, yk_err *err)
{
  int can = 0;
  YK_TRY(check(b, cudaSetDevice(from), "select", err));
  YK_TRY(check(b, cudaDeviceCanAccessPeer(&can, from, to), "peer access", err));
  if (!can) return YK_OK;
  cudaError_t error = cudaDeviceEnablePeerAccess(to, 0);
  if (error != cudaErrorPeerAccessAlreadyEnabled) return check(b, error, "peer access", err);
  cudaGetLastError();
  return YK_OK;
}

static yk_status open_bench(link_bench *b, yk_err *err)
{
  b->sent = malloc(CHECKED_BYTES);
  b->arrived = malloc(CHECKED_BYTES);
  if (!b->sent || !b->arrived) return yk_err_set(err, YK_E_NOMEM, "no memory to test links");
  YK_TRY(open_access(b, b->to, b->from, err));
  YK_TRY(check(b, cudaMalloc(&b->dst, YK_P2P_LINK_BYTES), "allocation", err));
  YK_TRY(open_access(b, b->from, b->to, err));
  YK_TRY(check(b, cudaMalloc(&b->src, YK_P2P_LINK_BYTES), "allocation", err));
  YK_TRY(check(b, cudaStreamCreateWithFlags(&b->stream, cudaStreamNonBlocking), "stream", err));
  YK_TRY(check(b, cudaEventCreate(&b->begin), "event", err));
  return check(b, cudaEventCreate(&b->end), "event", err);
}

static void close_bench(link_bench *b)
{
  if (b->begin) cudaEventDestroy(b->begin);
  if (b->end) cudaEventDestroy(b->end);
  if (b->stream) cudaStreamDestroy(b->stream);
  cudaFree(b->src);
  cudaFree(b->dst);
  cudaGetLastError();
  free(b->sent);
  free(b->arrived);
}

static yk_status time_repeats(const link_bench *b, size_t n_bytes, int n, int n_repeats, yk_spread *out, yk_err *err)
{
  double us[YK_P2P_LINK_MAX_REPEATS];
  for (int i = 0; i < n_repeats; i++) YK_TRY(time_copies(b, n_bytes, n, &us[i], err));
  *out = yk_spread_of(us, n_repeats);
  return YK_OK;
}

static yk_status run_bench(link_bench *b, int n_repeats, yk_p2p_link_times *out, yk_err *err)
{
  YK_TRY(open_bench(b, err));
  YK_TRY(check_bytes(b, err));
  YK_TRY(time_repeats(b, YK_P2P_LINK_BYTES, N_LARGE, n_repeats, &out->copy_us, err));
  return time_repeats(b, SMALL_BYTES, N_SMALL, n_repeats, &out->latency_us, err);
}

yk_status yk_p2p_link_test(int from, int to, int n_repeats, yk_p2p_link_times *out, yk_err *err)
{
  link_bench b = {.from = from, .to = to};
  int current = 0;
  cudaGetDevice(&current);
  yk_status status = run_bench(&b, n_repeats, out, err);
  if (status != YK_E_TIMEOUT) close_bench(&b);
  cudaSetDevice(current);
  return status;
}

/* ---- Both directions --------------------------------------------------------------------------------------------- */

static yk_status copy_large(const link_bench *b, yk_err *err)
{
  YK_TRY(check(b, cudaSetDevice(b->from), "select", err));
  return check(b, cudaMemcpyPeerAsync(b->dst, b->to, b->src, b->from, YK_P2P_LINK_BYTES, b->stream), "copy", err);
}

/* Microseconds of a copy in each direction, in a chain of N_LARGE copies each way. The copies back start after the
 * event `there->begin`, and the event `there->end` waits for them: the time between the two events covers both. */
static yk_status time_both(const link_bench *there, const link_bench *back, double *us, yk_err *err)
{
  float ms = 0;
  YK_TRY(check(there, cudaSetDevice(there->from), "select", err));
  YK_TRY(check(there, cudaEventRecord(there->begin, there->stream), "event", err));
  YK_TRY(check(back, cudaSetDevice(back->from), "select", err));
  YK_TRY(check(back, cudaStreamWaitEvent(back->stream, there->begin, 0), "event", err));
  for (int i = 0; i < N_LARGE; i++) {
    YK_TRY(copy_large(there, err));
    YK_TRY(copy_large(back, err));
  }
  YK_TRY(check(back, cudaEventRecord(back->end, back->stream), "event", err));
  YK_TRY(check(there, cudaSetDevice(there->from), "select", err));
  YK_TRY(check(there, cudaStreamWaitEvent(there->stream, back->end, 0), "event", err));
  YK_TRY(check(there, cudaEventRecord(there->end, there->stream), "event", err));
  YK_TRY(wait_for(there, there->end, err));
  YK_TRY(check(there, cudaEventElapsedTime(&ms, there->begin, there->end), "event", err));
  *us = (double)ms * 1e3 / N_LARGE;
  return YK_OK;
}

static yk_status run_both(link_bench *there, link_bench *back, int n_repeats, yk_spread *out, yk_err *err)
{
  double us[YK_P2P_LINK_MAX_REPEATS], not_counted;
  YK_TRY(open_bench(there, err));
  YK_TRY(open_bench(back, err));
  YK_TRY(check_bytes(there, err));
  YK_TRY(check_bytes(back, err));
  YK_TRY(time_both(there, back, &not_counted, err));
  for (int i = 0; i < n_repeats; i++) YK_TRY(time_both(there, back, &us[i], err));
  *out = yk_spread_of(us, n_repeats);
  return YK_OK;
}

yk_status yk_p2p_link_both_ways(int one, int other, int n_repeats, yk_spread *us, yk_err *err)
{
  link_bench there = {.from = one, .to = other}, back = {.from = other, .to = one};
  int current = 0;
  cudaGetDevice(&current);
  yk_status status = run_both(&there, &back, n_repeats, us, err);
  if (status != YK_E_TIMEOUT) {
    close_bench(&there);
    close_bench(&back);
  }
  cudaSetDevice(current);
  return status;
}
