/* cuda_device.h - one NVIDIA GPU as a device (see kernels/device.h), and queries about GPUs before one is opened.
 *
 * A device's operations may be called from any thread, one at a time; each makes the GPU current for its thread. The
 * table of operations, creation and destruction are in cuda_device.c; the folders, lower ones first:
 *
 *   ptx         PTX instructions without a C++ intrinsic common      common parts of several folders' kernels
 *   blas        cuBLAS                                     rows        embedding, norms, rotary embedding
 *   attention   paged attention                            latent      latent attention
 *   gemm        GEMM with 4-bit weights, grouped ones      w8a8        GEMM of 8-bit weights and activations
 *   moe         routing to experts, their combination
 *   decode      all layers of a decode step of one row
 *   device      common parts of operations: state, errors and waits (state.h, errors.h), memory and copies (memory.h,
 *               staging.h), graphs, clocks, a check that a GPU answers (probe.h)
 *   linear      linear layers                              sampling    choice of tokens
 *   quantize    16-bit weights to 4-bit ones */
#ifndef YK_KERNELS_CUDA_CUDA_DEVICE_H
#define YK_KERNELS_CUDA_CUDA_DEVICE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct CUstream_st; /* *cudaStream_t, without the CUDA headers */

/* yk_cuda_device_count - the number of GPUs that this process may use; 0 without a driver. Thread: any. */
int yk_cuda_device_count(void);

typedef struct yk_cuda_device_info {
  char name[128]; /* "NVIDIA H200" */
  char uuid[48];  /* "GPU-01234567-89ab-...", as nvidia-smi prints it */
  int compute_major, compute_minor;
  int64_t free_bytes, total_bytes;
} yk_cuda_device_info;

/* yk_cuda_device_query - describes a GPU. Errors: YK_E_INVAL if the ordinal has no GPU, YK_E_DEVICE. Thread: any. */
yk_status yk_cuda_device_query(int ordinal, yk_cuda_device_info *out, yk_err *err);

/* yk_cuda_device_create - opens GPU `ordinal` with one stream and every buffer that its operations need.
 *   dtype: YK_F16 or YK_BF16.
 *   Errors: YK_E_UNSUPPORTED (float32, a GPU below compute capability 8.0, no libcublas, with the loader's message),
 *   YK_E_INVAL (ordinal, limits), YK_E_CAPACITY, YK_E_NOMEM, YK_E_DEVICE. YK_E_DEVICE is also returned, with the
 *   reason, if an earlier failure prevents this process from using the GPU. */
yk_status yk_cuda_device_create(int ordinal, yk_dtype dtype, const yk_device_limits *limits, yk_device **out,
                                yk_err *err);

/* ---- For communicators ------------------------------------------------------------------------------------------- */

struct CUstream_st *yk_cuda_device_stream(yk_device *dev);
int yk_cuda_device_ordinal(const yk_device *dev);

/* yk_cuda_device_activate - makes the device's GPU current for the calling thread. */
yk_status yk_cuda_device_activate(yk_device *dev, yk_err *err);

/* yk_cuda_device_blame - completes the error of an operation that failed on this GPU without naming it. Puts "GPU 1: "
 *   before err's message. If this process cannot use the GPU any more, appends CUDA's reason and the remedy to the
 *   message. Returns status; YK_OK changes nothing. Waits for nothing. */
yk_status yk_cuda_device_blame(yk_device *dev, yk_status status, yk_err *err);

/* A watch is called repeatedly while an operation waits for the stream. An error of the watch ends the wait. Before the
 * watch returns an error, it must abort the kernels that wait for other ranks, so that the stream drains. */
typedef yk_status (*yk_cuda_watch)(void *context, yk_err *err);

/* yk_cuda_device_set_watch - a device has one watch at a time; NULL removes the watch. */
void yk_cuda_device_set_watch(yk_device *dev, yk_cuda_watch watch, void *context);

/* yk_cuda_device_check_watch - calls the watch once, for a communicator with its own wait. YK_OK without a watch. */
yk_status yk_cuda_device_check_watch(yk_device *dev, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
