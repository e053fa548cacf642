/* linear.h - linear layers of the CUDA device: operations of its table, see kernels/device.h and kernels/linear.h. */
#ifndef YK_KERNELS_CUDA_LINEAR_LINEAR_H
#define YK_KERNELS_CUDA_LINEAR_LINEAR_H

#include "kernels/cuda/layout/format.h"
#include "kernels/device.h"

yk_status yk_cuda_linear_create(yk_device *dev, const yk_linear_spec *spec, yk_linear **out, yk_err *err);
void yk_cuda_linear_destroy(yk_device *dev, yk_linear *linear);
yk_status yk_cuda_linear_forward(yk_device *dev, const yk_linear *linear, const yk_linear_args *args, yk_err *err);
bool yk_cuda_linear_fuses(yk_device *dev, const yk_linear *linear, const yk_linear_args *args);

/* yk_cuda_linear_plain - the weights act [*n, *k] of a layer that is one GEMM of plain 16-bit weights over all of x,
 *   with float32 outputs: for kernels that multiply by them as one of several steps. *bias: [*n], or NULL without one.
 *   NULL: another kind of layer. */
const void *yk_cuda_linear_plain(const yk_linear *linear, int64_t *n, int64_t *k, const float **bias);

/* yk_cuda_linear_only - the only GEMM of a layer of one matrix, and its weights in device memory. NULL: another kind of
 *   layer. */
const yk_cuda_gemm *yk_cuda_linear_only(const yk_linear *linear, const void **weights);

/* yk_cuda_activate - applies an activation without a gate after a GEMM, whose epilogue applies only gated ones. Sets n
 *   and activation of *args (convert.h). */
struct yk_cuda_activate_args;
yk_status yk_cuda_activate(yk_cuda_device *cuda, struct yk_cuda_activate_args *args, const yk_cuda_gemm *gemm,
                           yk_err *err);

/* The steps of a row-parallel layer with quantised inputs (yk_linear_sums_args), in sums.c. */
yk_status yk_cuda_linear_maxima(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
yk_status yk_cuda_linear_sums(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);
yk_status yk_cuda_linear_scale(yk_device *dev, const yk_linear *linear, const yk_linear_sums_args *args, yk_err *err);

#endif
