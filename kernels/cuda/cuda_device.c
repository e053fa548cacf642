/* cuda_device.c - a GPU as a device: its table of operations, its memory, waiting, and how errors are told. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/cuda_internal.h"

/* ---- Errors ------------------------------------------------------------------------------------------------------ */

/* After these CUDA refuses everything else in this process: "the process must be terminated and relaunched". */
static bool poisons_process(cudaError_t error)
{
  switch (error) {
  case cudaErrorIllegalAddress:
  case cudaErrorLaunchFailure:
  case cudaErrorLaunchTimeout:
  case cudaErrorAssert:
  case cudaErrorHardwareStackError:
  case cudaErrorIllegalInstruction:
  case cudaErrorMisalignedAddress:
  case cudaErrorInvalidAddressSpace:
  case cudaErrorInvalidPc:
  case cudaErrorTensorMemoryLeak:
  case cudaErrorMpsClientTerminated:
  case cudaErrorExternalDevice:
  case cudaErrorContained:
  case cudaErrorECCUncorrectable:
  case cudaErrorNvlinkUncorrectable: return true;
  default: return false;
  }
}

static const char *remedy(cudaError_t error)
{
  return poisons_process(error) ? "; a new process is needed" : "";
}

static yk_status tell(int ordinal, cudaError_t error, const char *operation, yk_err *err)
{
  if (error == cudaSuccess) return YK_OK;
  cudaGetLastError(); /* reported here: the next operation must not find it again */
  return yk_err_set(err, error == cudaErrorMemoryAllocation ? YK_E_CAPACITY : YK_E_DEVICE, "GPU %d: %s: %s%s", ordinal,
                    operation, cudaGetErrorString(error), remedy(error));
}

yk_status yk_cuda_check(const yk_cuda_device *cuda, cudaError_t error, const char *operation, yk_err *err)
{
  return tell(cuda->ordinal, error, operation, err);
}

/* An error of an earlier operation that every call to CUDA now returns, or cudaSuccess. */
static cudaError_t lasting_error(cudaStream_t stream)
{
  cudaError_t error = cudaStreamQuery(stream); /* not ready, or recording: it works */
  cudaGetLastError();
  return poisons_process(error) ? error : cudaSuccess;
}

yk_status yk_cuda_blame(const yk_cuda_device *cuda, yk_status status, yk_err *err)
{
  if (status == YK_OK || !err) return status;
  yk_err told = *err;
  cudaError_t error = lasting_error(cuda->stream);
  const char *why = error == cudaSuccess ? "" : cudaGetErrorString(error);
  bool is_told = strstr(told.message, why) != NULL;
  yk_err_clear(err);
  yk_err_set(err, status, "GPU %d: %s%s%s%s", cuda->ordinal, told.message, is_told ? "" : ": ", is_told ? "" : why,
             remedy(error));
  err->rank = told.rank;
  return status;
}

yk_status yk_cuda_enter(const yk_cuda_device *cuda, yk_err *err)
{
  return yk_cuda_check(cuda, cudaSetDevice(cuda->ordinal), "select", err);
}

/* ---- Waiting ----------------------------------------------------------------------------------------------------- */

/* Polling sees the end of a step sooner than a blocking wait and lets the watch speak; long waits leave the core
 * alone. */
yk_status yk_cuda_wait(yk_cuda_device *cuda, cudaEvent_t event, const char *operation, yk_err *err)
{
  const double spin_s = 0.02;
  const struct timespec pause = {0, 50000};
  int64_t start_ns = yk_clock_now_ns();
  bool spins = true;
  for (;;) {
    cudaError_t error = cudaEventQuery(event);
    if (error != cudaErrorNotReady) return yk_cuda_check(cuda, error, operation, err);
    cudaGetLastError();
    YK_TRY(yk_cuda_device_ask_watch(&cuda->base, err));
    if (spins)
      spins = yk_clock_seconds_since(start_ns) < spin_s;
    else
      nanosleep(&pause, NULL);
  }
}

yk_status yk_cuda_drain(yk_cuda_device *cuda, const char *operation, yk_err *err)
{
  YK_TRY(yk_cuda_check(cuda, cudaEventRecord(cuda->drained, cuda->stream), operation, err));
  return yk_cuda_wait(cuda, cuda->drained, operation, err);
}

static yk_status sync_stream(yk_device *dev, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_drain(cuda, "waiting for the stream", err);
}

/* The watch has what waits for peers aborted, but does not wait itself until it is gone. */
static void settle(yk_device *dev)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  const struct timespec pause = {0, 1000000};
  if (sync_stream(dev, NULL) == YK_OK) return;
  while (cudaStreamQuery(cuda->stream) == cudaErrorNotReady) nanosleep(&pause, NULL);
  cudaGetLastError();
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

yk_status yk_cuda_alloc(yk_device *dev, size_t n_bytes, void **out, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  void *ptr = NULL;
  YK_TRY(yk_cuda_enter(cuda, err));
  cudaError_t error = cudaMalloc(&ptr, n_bytes ? n_bytes : 1);
  if (error == cudaErrorMemoryAllocation) {
    size_t free_bytes = 0, total_bytes = 0;
    cudaGetLastError();
    cudaMemGetInfo(&free_bytes, &total_bytes);
    return yk_err_set(err, YK_E_CAPACITY, "GPU %d: no memory for %zu bytes; %zu of %zu are free", cuda->ordinal,
                      n_bytes, free_bytes, total_bytes);
  }
  YK_TRY(yk_cuda_check(cuda, error, "allocation", err));
  error = cudaMemsetAsync(ptr, 0, n_bytes, cuda->stream);
  if (error != cudaSuccess) {
    cudaFree(ptr);
    return yk_cuda_check(cuda, error, "allocation", err);
  }
  *out = ptr;
  return YK_OK;
}

void yk_cuda_free(yk_device *dev, void *ptr)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!ptr || yk_cuda_enter(cuda, NULL) != YK_OK) return;
  yk_cuda_drain(cuda, "free", NULL); /* through the watch: what waits for a lost peer must not hold us */
  cudaFree(ptr);
  cudaGetLastError();
}

yk_status yk_cuda_grow(yk_cuda_device *cuda, yk_cuda_buffer *buffer, size_t n_bytes, yk_err *err)
{
  if (n_bytes <= buffer->n_bytes) return YK_OK;
  yk_cuda_free(&cuda->base, buffer->ptr);
  *buffer = (yk_cuda_buffer){0};
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &buffer->ptr, err));
  buffer->n_bytes = n_bytes;
  return YK_OK;
}

static yk_status download(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (n_bytes == 0) return YK_OK;
  YK_TRY(sync_stream(dev, err));
  YK_TRY(
      yk_cuda_check(cuda, cudaMemcpyAsync(dst, src, n_bytes, cudaMemcpyDeviceToHost, cuda->stream), "download", err));
  return yk_cuda_drain(cuda, "download", err);
}

static yk_status memory_info(yk_device *dev, size_t *free_bytes, size_t *total_bytes, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, cudaMemGetInfo(free_bytes, total_bytes), "memory information", err);
}

/* ---- Operations that are one launch ------------------------------------------------------------------------------ */

static yk_status embed(yk_device *dev, const yk_embed_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_embed(dev->dtype, args, cuda->stream), "embed", err);
}

static yk_status check_hidden(const yk_cuda_device *cuda, int32_t hidden, yk_err *err)
{
  if (hidden <= YK_CUDA_MAX_HIDDEN) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: norm: hidden size: expected at most %d, found %d", cuda->ordinal,
                    YK_CUDA_MAX_HIDDEN, hidden);
}

static yk_status rms_norm(yk_device *dev, const yk_rms_norm_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(check_hidden(cuda, args->hidden, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_rms_norm(dev->dtype, args, cuda->stream), "rms_norm", err);
}

static yk_status add_norm(yk_device *dev, const yk_add_norm_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(check_hidden(cuda, args->hidden, err));
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_add_norm(dev->dtype, args, cuda->stream), "add_norm", err);
}

static yk_status qk_rope_kv(yk_device *dev, const yk_qk_rope_kv_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  int32_t head_dim = args->heads.head_dim;
  if (head_dim < 4 || head_dim > YK_CUDA_MAX_HEAD_DIM || head_dim % 4)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: head_dim: expected a multiple of 4 up to %d, found %d",
                      cuda->ordinal, YK_CUDA_MAX_HEAD_DIM, head_dim);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_qk_rope_kv(dev->dtype, args, cuda->stream), "qk_rope_kv", err);
}

static yk_status attention(yk_device *dev, const yk_attention_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_blame(cuda, yk_cuda_attention_run(&cuda->attention, args, dev->dtype, cuda->stream, err), err);
}

static yk_status gather_rows(yk_device *dev, const yk_gather_rows_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_gather_rows(args, cuda->stream), "gather_rows", err);
}

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

static void destroy(yk_device *dev)
{
  if (!dev) return;
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  if (!cuda->stream) { /* then there is nothing else, and the GPU may not answer */
    free(cuda);
    return;
  }
  cudaSetDevice(cuda->ordinal);
  if (cuda->drained) yk_cuda_drain(cuda, "destroy", NULL);
  yk_cuda_sampler_destroy(cuda);
  yk_cuda_blas_destroy(cuda->blas);
  void *const buffers[] = {cuda->blas_workspace, cuda->attention_workspace, cuda->gemm_workspace.ptr,
                           cuda->scratch.ptr};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) cudaFree(buffers[i]);
  yk_cuda_staging_destroy(&cuda->staging);
  if (cuda->drained) cudaEventDestroy(cuda->drained);
  cudaStreamDestroy(cuda->stream);
  cudaGetLastError();
  free(cuda);
}

static const yk_device_ops *device_ops(void)
{
  static const yk_device_ops ops = {
      .name = "cuda",
      .destroy = destroy,
      .alloc = yk_cuda_alloc,
      .free = yk_cuda_free,
      .upload = yk_cuda_upload,
      .download = download,
      .sync = sync_stream,
      .memory_info = memory_info,
      .settle = settle,
      .linear_create = yk_cuda_linear_create,
      .linear_destroy = yk_cuda_linear_destroy,
      .linear_forward = yk_cuda_linear_forward,
      .linear_bytes = yk_cuda_linear_bytes,
      .embed = embed,
      .rms_norm = rms_norm,
      .add_norm = add_norm,
      .qk_rope_kv = qk_rope_kv,
      .attention = attention,
      .gather_rows = gather_rows,
      .sample = yk_cuda_sample,
      .penalties_set = yk_cuda_penalties_set,
      .graph_begin = yk_cuda_graph_begin,
      .graph_end = yk_cuda_graph_end,
      .graph_run = yk_cuda_graph_run,
      .graph_destroy = yk_cuda_graph_destroy,
  };
  return &ops;
}

static yk_status check_arguments(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_err *err)
{
  int n_devices = yk_cuda_device_count();
  if (ordinal < 0 || ordinal >= n_devices)
    return yk_err_set(err, YK_E_INVAL, "GPU %d: this machine has %d", ordinal, n_devices);
  if (dtype != YK_F16 && dtype != YK_BF16)
    return yk_err_set(err, YK_E_UNSUPPORTED, "GPU %d: activations: expected float16 or bfloat16, found %s", ordinal,
                      yk_dtype_name(dtype));
  if (limits->max_tokens < 1 || limits->max_seqs < 1 || limits->max_model_tokens < 1 || limits->vocab < 1)
    return yk_err_set(
        err, YK_E_INVAL,
        "GPU %d: limits must be at least 1, found max_tokens %d, max_seqs %d, max_model_tokens %d, vocab %d", ordinal,
        limits->max_tokens, limits->max_seqs, limits->max_model_tokens, limits->vocab);
  return YK_OK;
}

static yk_status create_blas(yk_cuda_device *cuda, yk_err *err)
{
  YK_TRY(yk_cuda_alloc(&cuda->base, YK_CUDA_CUBLAS_BYTES, &cuda->blas_workspace, err));
  return yk_cuda_blame(cuda, yk_cuda_blas_create(cuda->stream, cuda->blas_workspace, &cuda->blas, err), err);
}

static yk_status open_device(yk_cuda_device *cuda, yk_err *err)
{
  YK_TRY(yk_cuda_enter(cuda, err));
  YK_TRY(yk_cuda_probe(cuda, err));
  YK_TRY(yk_cuda_check(cuda, cudaStreamCreateWithFlags(&cuda->stream, cudaStreamNonBlocking), "stream", err));
  YK_TRY(yk_cuda_check(cuda, cudaEventCreateWithFlags(&cuda->drained, cudaEventDisableTiming), "event", err));
  YK_TRY(yk_cuda_blame(cuda, yk_w4a16_gpu_init(&cuda->w4a16, YK_W4A16_AUTO, err), err));
  YK_TRY(yk_cuda_staging_create(cuda, err));
  YK_TRY(create_blas(cuda, err));
  size_t n_bytes = yk_cuda_attention_workspace_bytes(cuda->w4a16.n_multiprocessors, YK_CUDA_MAX_HEAD_DIM);
  YK_TRY(yk_cuda_alloc(&cuda->base, n_bytes, &cuda->attention_workspace, err));
  YK_TRY(yk_cuda_blame(cuda, yk_cuda_attention_init(&cuda->attention, cuda->attention_workspace, err), err));
  YK_TRY(yk_cuda_sampler_create(cuda, err));
  return yk_cuda_drain(cuda, "start", err);
}

yk_status yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                yk_err *err)
{
  YK_TRY(check_arguments(ordinal, dtype, limits, err));
  yk_cuda_device *cuda = calloc(1, sizeof *cuda);
  if (!cuda) return yk_err_set(err, YK_E_NOMEM, "GPU %d: no memory for a device", ordinal);
  cuda->base = (yk_device){.ops = device_ops(), .dtype = dtype};
  cuda->ordinal = ordinal;
  cuda->limits = *limits;
  yk_status status = open_device(cuda, err);
  if (status != YK_OK) {
    destroy(&cuda->base);
    return status;
  }
  *out = &cuda->base;
  return YK_OK;
}

/* ---- Before and beside ------------------------------------------------------------------------------------------- */

int yk_cuda_device_count(void)
{
  int n = 0;
  cudaError_t error = cudaGetDeviceCount(&n);
  cudaGetLastError();
  return error == cudaSuccess ? n : 0;
}

yk_status yk_cuda_device_query(int ordinal, yk_cuda_device_info *out, yk_err *err)
{
  int n_devices = yk_cuda_device_count();
  struct cudaDeviceProp properties;
  size_t free_bytes = 0, total_bytes = 0;
  if (ordinal < 0 || ordinal >= n_devices)
    return yk_err_set(err, YK_E_INVAL, "GPU %d: this machine has %d", ordinal, n_devices);
  YK_TRY(tell(ordinal, cudaGetDeviceProperties(&properties, ordinal), "properties", err));
  YK_TRY(tell(ordinal, cudaSetDevice(ordinal), "select", err));
  YK_TRY(tell(ordinal, cudaMemGetInfo(&free_bytes, &total_bytes), "memory information", err));
  YK_TRY(tell(ordinal, lasting_error(NULL), "an earlier operation of this process", err));
  *out = (yk_cuda_device_info){.compute_major = properties.major,
                               .compute_minor = properties.minor,
                               .free_bytes = (int64_t)free_bytes,
                               .total_bytes = (int64_t)total_bytes};
  snprintf(out->name, sizeof out->name, "%s", properties.name);
  const unsigned char *b = (const unsigned char *)properties.uuid.bytes;
  snprintf(out->uuid, sizeof out->uuid, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
           b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14], b[15]);
  return YK_OK;
}

struct CUstream_st *yk_cuda_device_stream(yk_device *dev)
{
  return yk_cuda_device_of(dev)->stream;
}

int yk_cuda_device_ordinal(const yk_device *dev)
{
  return ((const yk_cuda_device *)dev)->ordinal;
}

yk_status yk_cuda_device_activate(yk_device *dev, yk_err *err)
{
  return yk_cuda_enter(yk_cuda_device_of(dev), err);
}

yk_status yk_cuda_device_blame(yk_device *dev, yk_status status, yk_err *err)
{
  return yk_cuda_blame(yk_cuda_device_of(dev), status, err);
}

void yk_cuda_device_set_watch(yk_device *dev, yk_cuda_watch watch, void *context)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  cuda->watch = watch;
  cuda->watch_context = context;
}

yk_status yk_cuda_device_ask_watch(yk_device *dev, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  return cuda->watch ? cuda->watch(cuda->watch_context, err) : YK_OK;
}
