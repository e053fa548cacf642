#include "parallel/links_p2p.h"

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/rng.h"

enum { LARGE_BYTES = 32 << 20, N_LARGE = 8, SMALL_BYTES = 4, N_SMALL = 100, CHECKED_BYTES = 1 << 20 };

/* Owner: link_test. */
typedef struct link_bench {
  int from, to;
  void *src, *dst; /* [LARGE_BYTES] on from and to */
  uint32_t *sent, *arrived;
  cudaStream_t stream; /* of from */
  cudaEvent_t begin, end;
} link_bench;

static yk_status check(const link_bench *b, cudaError_t error, const char *what, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  cudaGetLastError(); /* reported here: a later check is not to find it */
  return yk_err_set(err, error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE, "GPU %d to GPU %d: %s: %s",
                    b->from, b->to, what, cudaGetErrorString(error));
}

yk_status yk_p2p_link_ask(int from, int to, bool *peer_access, yk_err *err)
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

/* Microseconds of one copy, of a chain of n after one that is not timed. */
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

/* Fresh bytes on the sender arrive unchanged. */
static yk_status check_bytes(const link_bench *b, yk_err *err)
{
  for (uint32_t i = 0; i < CHECKED_BYTES / sizeof *b->sent; i++)
    b->sent[i] = (uint32_t)(yk_rng_uniform((uint64_t)b->from + 1, (uint32_t)b->to, i) * 4294967040.0);
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
  return yk_err_set(err, YK_E_DEVICE, "GPU %d to GPU %d: other bytes arrived than were sent", b->from, b->to);
}

/* Give a GPU access to the other one's memory, as the engine's communicator does, where that is possible. */
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
  YK_TRY(check(b, cudaMalloc(&b->dst, LARGE_BYTES), "allocation", err));
  YK_TRY(open_access(b, b->from, b->to, err));
  YK_TRY(check(b, cudaMalloc(&b->src, LARGE_BYTES), "allocation", err));
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

static yk_status run_bench(link_bench *b, yk_p2p_link_speed *out, yk_err *err)
{
  double large_us = 0;
  YK_TRY(open_bench(b, err));
  YK_TRY(check_bytes(b, err));
  YK_TRY(time_copies(b, LARGE_BYTES, N_LARGE, &large_us, err));
  YK_TRY(time_copies(b, SMALL_BYTES, N_SMALL, &out->latency_us, err));
  out->copy_gb_s = LARGE_BYTES / large_us * 1e-3;
  return YK_OK;
}

yk_status yk_p2p_link_test(int from, int to, yk_p2p_link_speed *out, yk_err *err)
{
  link_bench b = {.from = from, .to = to};
  int current = 0;
  cudaGetDevice(&current);
  yk_status status = run_bench(&b, out, err);
  if (status != YK_E_TIMEOUT) close_bench(&b);
  cudaSetDevice(current);
  return status;
}
