/* cuda_device.h - one NVIDIA GPU as a device (see kernels/device.h), and what can be asked of GPUs before one is
 * opened.
 *
 * A device's operations may be called from any thread, one at a time; each makes the GPU current for its thread. */
#ifndef YK_KERNELS_CUDA_CUDA_DEVICE_H
#define YK_KERNELS_CUDA_CUDA_DEVICE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_cuda_device_count - GPUs that this process may use; 0 where there is no driver. Thread: any. */
int yk_cuda_device_count(void);

typedef struct yk_cuda_device_info {
  char name[128]; /* "NVIDIA H200" */
  char uuid[48];  /* "GPU-01234567-89ab-...", as nvidia-smi prints it */
  int compute_major, compute_minor;
  int64_t free_bytes, total_bytes;
} yk_cuda_device_info;

/* yk_cuda_device_query - describe a GPU. Errors: YK_E_INVAL for an ordinal that is not there, YK_E_DEVICE. */
yk_status yk_cuda_device_query(int ordinal, yk_cuda_device_info *out, yk_err *err);

/* yk_cuda_device_create - open GPU `ordinal` with one stream and every buffer that its operations need.
 *   dtype: YK_F16 or YK_BF16.
 *   Errors: YK_E_UNSUPPORTED (float32, a GPU below compute capability 8.0, no libcublas, in the loader's words),
 *   YK_E_INVAL (ordinal, limits), YK_E_CAPACITY, YK_E_NOMEM, YK_E_DEVICE; the last also when an earlier failure has
 *   poisoned the process, and says so. */
yk_status yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                yk_err *err);

/* ---- For communicators ------------------------------------------------------------------------------------------- */

struct CUstream_st *yk_cuda_device_stream(yk_device *dev);
int yk_cuda_device_ordinal(const yk_device *dev);

/* yk_cuda_device_activate - make the device's GPU current for the calling thread. */
yk_status yk_cuda_device_activate(yk_device *dev, yk_err *err);

/* yk_cuda_device_blame - for what failed on this GPU without saying so: puts "GPU 1: " before err's message, and behind
 *   it, where the GPU is of no more use to this process, CUDA's reason and what to do. Returns status; YK_OK changes
 *   nothing. Waits for nothing. */
yk_status yk_cuda_device_blame(yk_device *dev, yk_status status, yk_err *err);

/* A watch is asked again and again while an operation waits for the stream. When it fails, the wait ends with its
 * error; it has then made sure that the stream will drain (by aborting what waits there for other ranks). */
typedef yk_status (*yk_cuda_watch)(void *context, yk_err *err);

/* yk_cuda_device_set_watch - one watch a device; NULL removes it. */
void yk_cuda_device_set_watch(yk_device *dev, yk_cuda_watch watch, void *context);

/* yk_cuda_device_ask_watch - ask it once, for waits of a communicator's own; YK_OK where there is none. */
yk_status yk_cuda_device_ask_watch(yk_device *dev, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
