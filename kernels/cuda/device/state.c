/* state.c - errors of a CUDA device, and waits for its stream. */
#include "kernels/cuda/device/state.h"

#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kernels/cuda/device/errors.h"

yk_status yk_cuda_check(const yk_cuda_device *cuda, cudaError_t error, const char *operation, yk_err *err)
{
  return yk_cuda_error_report(cuda->ordinal, error, operation, err);
}

yk_status yk_cuda_blame(const yk_cuda_device *cuda, yk_status status, yk_err *err)
{
  if (status == YK_OK || !err) return status;
  yk_err first = *err;
  cudaError_t error = yk_cuda_error_lasting(cuda->stream);
  const char *why = error == cudaSuccess ? "" : cudaGetErrorString(error);
  bool is_named = strstr(first.message, why) != NULL;
  yk_err_clear(err);
  yk_err_set(err, status, "GPU %d: %s%s%s%s", cuda->ordinal, first.message, is_named ? "" : ": ", is_named ? "" : why,
             yk_cuda_error_remedy(error));
  err->rank = first.rank;
  return status;
}

yk_status yk_cuda_enter(const yk_cuda_device *cuda, yk_err *err)
{
  return yk_cuda_check(cuda, cudaSetDevice(cuda->ordinal), "select", err);
}

yk_status yk_cuda_check_watch(const yk_cuda_device *cuda, yk_err *err)
{
  return cuda->watch ? cuda->watch(cuda->watch_context, err) : YK_OK;
}

/* The event is polled: polling detects the end of a step sooner than a blocking wait, and allows calls of the watch. A
 * wait that takes longer than a step sleeps between polls, to leave the processor to others. The watch is called once
 * more after the event, since the work may have ended because a kernel has given up. */
yk_status yk_cuda_wait(const yk_cuda_device *cuda, cudaEvent_t event, const char *operation, yk_err *err)
{
  const double spin_s = 0.02;
  const struct timespec pause = {0, 50000};
  int64_t start_ns = yk_clock_now_ns();
  bool spins = true;
  for (;;) {
    cudaError_t error = cudaEventQuery(event);
    if (error == cudaSuccess) return yk_cuda_check_watch(cuda, err);
    if (error != cudaErrorNotReady) return yk_cuda_check(cuda, error, operation, err);
    cudaGetLastError();
    YK_TRY(yk_cuda_check_watch(cuda, err));
    if (spins)
      spins = yk_clock_seconds_since(start_ns) < spin_s;
    else
      nanosleep(&pause, NULL);
  }
}

yk_status yk_cuda_drain(const yk_cuda_device *cuda, const char *operation, yk_err *err)
{
  YK_TRY(yk_cuda_check(cuda, cudaEventRecord(cuda->drained, cuda->stream), operation, err));
  return yk_cuda_wait(cuda, cuda->drained, operation, err);
}

yk_status yk_cuda_sync(yk_device *dev, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_drain(cuda, "waiting for the stream", err);
}
