/* state.h - the state of a CUDA device, and the common parts of all operations: make the GPU current, report errors,
 * wait for the stream.
 *
 * cuda_device.c creates the state and fills the device's table. The files of this folder, the linear layers and the
 * sampler implement operations of the table; each declares its own in the header of its name and includes this one.
 * Kernels do not receive the state: their launches take the arguments of one operation and a stream. */
#ifndef YK_KERNELS_CUDA_DEVICE_STATE_H
#define YK_KERNELS_CUDA_DEVICE_STATE_H

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention/attention_types.h"
#include "kernels/cuda/gemm/turns.h"
#include "kernels/cuda/gemm/types.h"
#include "kernels/cuda/latent/latent_types.h"
#include "kernels/cuda/w8a8/types.h"
#include "kernels/device.h"

/* Device memory that may be replaced by a larger block while layers are created, and keeps its address afterwards. */
typedef struct yk_cuda_buffer {
  void *ptr;
  size_t n_bytes;
} yk_cuda_buffer;

/* Device memory through which thread blocks of one launch of a mixture's kernels exchange values. */
typedef struct yk_cuda_moe_mailboxes {
  void *router;       /* moe/router.h */
  void *routed_gemm;  /* moe/routed_gemm.h */
  void *single_token; /* moe/single_token.h */
} yk_cuda_moe_mailboxes;

typedef struct yk_cuda_device {
  yk_device base; /* first: a yk_device * is a yk_cuda_device * */
  int ordinal;
  yk_device_limits limits;
  cudaStream_t stream;
  cudaEvent_t drained; /* yk_cuda_drain records this event and waits for it */
  yk_gemm_gpu wna16;
  yk_w8a8_gpu w8a8;
  int64_t w4a8_least_results; /* rows * columns of a GEMM of 4-bit weights from which on 8-bit inputs pay */
  yk_cuda_attention attention;
  yk_cuda_latent latent;
  void *latent_counters;           /* latent.grid_counters */
  void *delta_readers;             /* delta/delta.h */
  void *mamba_readers;             /* mamba/mamba.h */
  struct yk_cuda_staging *staging; /* staging.h */
  struct yk_cuda_blas *blas;       /* blas/blas.h */
  struct yk_cuda_sampler *sampler; /* sampling/sampler.h */
  void *blas_workspace, *attention_workspace;
  yk_cuda_moe_mailboxes mailboxes;
  yk_cuda_buffer gemm_workspace;   /* for the WNA16 GEMM: zeroed once; every call leaves it ready for the next call */
  yk_gemm_turns gemm_turns;        /* of the WNA16 GEMM's calls */
  yk_cuda_buffer scratch;          /* results of a GEMM that cannot write y itself */
  yk_cuda_buffer adapter_products; /* adapters/adapters.h */
  yk_cuda_buffer adapter_exchange; /* the same: zeroed once; every launch leaves it zeroed */
  yk_cuda_buffer landing, landing_order; /* while a layer is created: an uploaded part, and the order of its inputs */
  yk_status (*watch)(void *context, yk_err *err); /* a yk_cuda_watch of device.h, or NULL */
  void *watch_context;
} yk_cuda_device;

static inline yk_cuda_device *yk_cuda_device_of(yk_device *dev)
{
  return (yk_cuda_device *)dev;
}

/* yk_cuda_check - returns YK_OK, or the error of an operation on this GPU: see yk_cuda_error_report. */
yk_status yk_cuda_check(const yk_cuda_device *cuda, cudaError_t error, const char *operation, yk_err *err);

/* yk_cuda_blame - see yk_cuda_device_blame in cuda_device.h. */
yk_status yk_cuda_blame(const yk_cuda_device *cuda, yk_status status, yk_err *err);

/* yk_cuda_enter - makes the GPU current for the calling thread. Every operation of the table begins with this call. */
yk_status yk_cuda_enter(const yk_cuda_device *cuda, yk_err *err);

/* yk_cuda_check_watch - see yk_cuda_device_check_watch in cuda_device.h. */
yk_status yk_cuda_check_watch(const yk_cuda_device *cuda, yk_err *err);

/* yk_cuda_wait - waits until the event has completed, and calls the watch meanwhile; an error of the watch ends the
 *   wait. */
yk_status yk_cuda_wait(const yk_cuda_device *cuda, cudaEvent_t event, const char *operation, yk_err *err);

/* yk_cuda_drain - waits, in the same way, until everything on the stream has completed. */
yk_status yk_cuda_drain(const yk_cuda_device *cuda, const char *operation, yk_err *err);

/* yk_cuda_sync - sync of the device's table. */
yk_status yk_cuda_sync(yk_device *dev, yk_err *err);

#endif
