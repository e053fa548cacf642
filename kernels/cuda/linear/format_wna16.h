/* format_wna16.h - what the rows of the formats that gemm/wna16.h multiplies share: their kinds of GEMM are in
 * format_wna16.c. */
#ifndef YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H
#define YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H

#include "kernels/cuda/gemm/wna16_types.h"
#include "kernels/cuda/linear/format.h"

/* yk_wna16_desc_of - a GEMM of one of the kinds yk_cuda_gemm_wna16_*; its key is the inputs that share a scale. */
yk_wna16_desc yk_wna16_desc_of(const yk_cuda_gemm *gemm);

#endif
