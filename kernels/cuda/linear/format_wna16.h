/* format_wna16.h - common parts of the formats that gemm/dense/dense.h multiplies: their kinds of GEMM are in
 * format_wna16.c. */
#ifndef YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H
#define YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H

#include "kernels/cuda/gemm/grouped/types.h"
#include "kernels/cuda/gemm/types.h"
#include "kernels/cuda/layout/format.h"

/* yk_gemm_desc_of - the desc of a GEMM whose kind is one of yk_cuda_gemm_wna16_*. Their fuse_key is the number of
 * inputs that share a scale, and becomes desc.group. */
yk_gemm_desc yk_gemm_desc_of(const yk_cuda_gemm *gemm);

/* For kernels of mixtures (moe) that contain such a GEMM or share its launch:
 * yk_cuda_gemm_is_wna16 - whether the GEMM's kind is one of these.
 * yk_cuda_wna16_grouped_call - the call of its kernel; shared_expert.weights is NULL if call's shared layer cannot be
 * part of the kernel.
 * yk_cuda_wna16_grouped_launched - must be called with each launch of such a call: two successive launches overlap, and
 * take different halves of the multiprocessors. */
bool yk_cuda_gemm_is_wna16(const yk_cuda_gemm *gemm);
yk_grouped_call yk_cuda_wna16_grouped_call(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call);
void yk_cuda_wna16_grouped_launched(yk_cuda_device *cuda);

#endif
