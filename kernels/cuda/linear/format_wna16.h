/* format_wna16.h - what the rows of the formats that gemm/dense/dense.h multiplies share: their kinds of GEMM are in
 * format_wna16.c. */
#ifndef YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H
#define YK_KERNELS_CUDA_LINEAR_FORMAT_WNA16_H

#include "kernels/cuda/gemm/types.h"
#include "kernels/cuda/linear/format.h"

/* yk_wna16_desc_of - the desc of a GEMM whose kind is one of yk_cuda_gemm_wna16_*. Their fuse_key is the number of
 * inputs that share a scale, and becomes desc.group. */
yk_wna16_desc yk_wna16_desc_of(const yk_cuda_gemm *gemm);

#endif
