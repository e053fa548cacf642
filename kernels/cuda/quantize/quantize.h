/* quantize.h - quantising as operations of the device's table: see kernels/awq_quantize.h.
 *
 *   awq_quantize.h, awq_fused.cuh   weights to AWQ's tensors
 *   awq_search.h                    kernels of the search; cuBLAS computes its products: errors times inputs in TF32;
 *                                   inputs times inputs, and changes times these products, in float32 */
#ifndef YK_KERNELS_CUDA_QUANTIZE_QUANTIZE_H
#define YK_KERNELS_CUDA_QUANTIZE_QUANTIZE_H

#include "kernels/device.h"

yk_status yk_cuda_awq_quantize(yk_device *dev, const yk_awq_quantize_args *args, yk_err *err);
yk_status yk_cuda_awq_observe(yk_device *dev, const yk_awq_observe_args *args, yk_err *err);
yk_status yk_cuda_awq_loss(yk_device *dev, const yk_awq_loss_args *args, yk_err *err);
yk_status yk_cuda_awq_limits(yk_device *dev, const yk_awq_limits_args *args, yk_err *err);

#endif
