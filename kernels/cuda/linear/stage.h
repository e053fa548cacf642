/* stage.h - copies slices of a checkpoint's weights unchanged to the device, from which kernels repack them.
 *
 * The copies use the device's own buffers, each part of a layer at the address of the previous part: copies and
 * repacking kernels are on one stream, so a part arrives after the previous part has been repacked. Separate
 * allocations would take longer than the parts themselves for a layer with hundreds of parts (experts).
 * yk_cuda_linear_create frees the buffers at its end. Errors: YK_E_CAPACITY, YK_E_DEVICE. */
#ifndef YK_KERNELS_CUDA_LINEAR_STAGE_H
#define YK_KERNELS_CUDA_LINEAR_STAGE_H

#include "kernels/cuda/device/state.h"
#include "kernels/linear.h"

/* yk_cuda_stage_rows - copies rows of bytes of a part's slice, with the float32 scales and zeros of their groups.
 *   *rows: pointers into the device's buffer, valid for work on cuda->stream until the next part is staged. */
yk_status yk_cuda_stage_rows(yk_cuda_device *cuda, const yk_linear_part *part, yk_gemm_rows *rows, yk_err *err);

/* yk_cuda_stage_order - copies the order of a part's inputs, int32 [k] in device memory, valid as long as the rows;
 *   *order: NULL if the part has none. */
yk_status yk_cuda_stage_order(yk_cuda_device *cuda, const yk_linear_part *part, const int32_t **order, yk_err *err);

#endif
