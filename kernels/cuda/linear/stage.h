/* stage.h - slices of a checkpoint's weights on the device as they come, on their way to a packed form. */
#ifndef YK_KERNELS_CUDA_LINEAR_STAGE_H
#define YK_KERNELS_CUDA_LINEAR_STAGE_H

#include "kernels/cuda/device/state.h"
#include "kernels/linear.h"

/* yk_cuda_stage_rows - rows of bytes of a part's slice, with the scales and zeros of their groups, in a buffer of their
 *   own that the caller frees, after an error too. Errors: YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_cuda_stage_rows(yk_cuda_device *cuda, const yk_linear_part *part, void **buffer, yk_wna16_rows *rows,
                             yk_err *err);

/* yk_cuda_stage_order - the order of a part's inputs, in memory of its own that the caller frees; *order stays as it is
 *   where the part has none. Errors: YK_E_CAPACITY, YK_E_DEVICE. */
yk_status yk_cuda_stage_order(yk_cuda_device *cuda, const yk_linear_part *part, void **order, yk_err *err);

#endif
