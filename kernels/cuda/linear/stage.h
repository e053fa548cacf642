/* stage.h - copies of slices of a checkpoint's weights to the device, unchanged, from where kernels repack them.
 *
 * They land in the device's own buffers, each part of a layer where the one before was: copies and kernels that pack
 * are on one stream, so a part arrives when the last one has been packed. An allocation for each part would take longer
 * than the part itself where a layer has hundreds (experts). yk_cuda_linear_create frees the buffers at its end.
 * Errors: YK_E_CAPACITY, YK_E_DEVICE. */
#ifndef YK_KERNELS_CUDA_LINEAR_STAGE_H
#define YK_KERNELS_CUDA_LINEAR_STAGE_H

#include "kernels/cuda/device/state.h"
#include "kernels/linear.h"

/* yk_cuda_stage_rows - rows of bytes of a part's slice, with the float32 scales and zeros of their groups. *rows:
 * pointers into the device's buffer, valid for work on cuda->stream until the next part is staged. */
yk_status yk_cuda_stage_rows(yk_cuda_device *cuda, const yk_linear_part *part, yk_wna16_rows *rows, yk_err *err);

/* yk_cuda_stage_order - the order of a part's inputs, int32 [k] in device memory, valid as long; *order: NULL where the
 * part has none. */
yk_status yk_cuda_stage_order(yk_cuda_device *cuda, const yk_linear_part *part, const int32_t **order, yk_err *err);

#endif
