/* staging.h - copies from host memory to the GPU, through pinned slots:
 *
 *   source --(memcpy by the device's pool)--> next slot --(cudaMemcpyAsync on the stream)--> device memory
 *
 * The source may be reused as soon as the call returns, and one slot is filled while the copy of another one runs. A
 * slot is filled again once the event after its copy has completed. One thread alone would fill slots more slowly than
 * the link transfers them, above all from pages of a mapped file that are accessed for the first time. */
#ifndef YK_KERNELS_CUDA_DEVICE_STAGING_H
#define YK_KERNELS_CUDA_DEVICE_STAGING_H

#include "kernels/cuda/device/state.h"

/* yk_cuda_staging_create - creates pinned memory and events, in cuda->staging. Errors: YK_E_NOMEM, YK_E_DEVICE,
 *   YK_E_CAPACITY; objects created before the error stay in cuda->staging for yk_cuda_staging_destroy. */
yk_status yk_cuda_staging_create(yk_cuda_device *cuda, yk_err *err);

/* yk_cuda_staging_destroy - NULL is allowed. The stream must have been drained. */
void yk_cuda_staging_destroy(struct yk_cuda_staging *staging);

/* yk_cuda_upload - upload of the device's table. */
yk_status yk_cuda_upload(yk_device *dev, void *dst, const void *src, size_t n_bytes, yk_err *err);

/* yk_cuda_upload_rows - copies n_rows rows of row_bytes. The rows are src_stride bytes apart in src, and contiguous in
 *   dst. */
yk_status yk_cuda_upload_rows(yk_cuda_device *cuda, void *dst, const void *src, size_t row_bytes, size_t src_stride,
                              size_t n_rows, yk_err *err);

#endif
