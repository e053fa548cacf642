/* grouped.h - grouped forwards of experts' layers on the CUDA device (yk_grouped_args), for mixtures. */
#ifndef YK_KERNELS_CUDA_LINEAR_GROUPED_H
#define YK_KERNELS_CUDA_LINEAR_GROUPED_H

#include "kernels/cuda/layout/format.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_grouped_gemm - the one GEMM of an experts' layer; NULL: its slice is empty, and a forward launches
 *   nothing. */
const yk_cuda_gemm *yk_cuda_grouped_gemm(const yk_linear *linear);

/* yk_cuda_grouped_call_of - the arguments of the layer's GEMM. fusion: may be NULL. */
yk_cuda_grouped_call yk_cuda_grouped_call_of(const yk_linear *linear, const yk_grouped_args *args,
                                             const yk_cuda_grouped_fusion *fusion);

/* yk_cuda_grouped_forward - launches the forward, with the work in fusion (may be NULL) in the same kernel.
 *   starts_are_settled: args->starts were complete before the preceding kernel on the stream could begin: that kernel,
 *   or an earlier grouped forward, has waited for the kernel that wrote them before it let its successor start.
 *     The preceding forward was of another layer.
 *   Errors: YK_E_INVAL on slots, y_stride or a missing staging buffer; YK_E_DEVICE. */
yk_status yk_cuda_grouped_forward(yk_cuda_device *cuda, const yk_linear *linear, const yk_grouped_args *args,
                                  const yk_cuda_grouped_fusion *fusion, bool starts_are_settled, yk_err *err);

#ifdef __cplusplus
}
#endif
#endif
