/* format_awq.h - the packed form of AWQ weights, for the rows that keep it (format.h has the contracts). */
#ifndef YK_KERNELS_CUDA_LINEAR_FORMAT_AWQ_H
#define YK_KERNELS_CUDA_LINEAR_FORMAT_AWQ_H

#include "kernels/cuda/layout/format.h"

/* yk_cuda_awq_packed_group - fuse_key: inputs of the slice that share a scale in the packed form. */
int64_t yk_cuda_awq_packed_group(const yk_linear_part *part);

/* yk_cuda_awq_load_packed - load. Only in builds with CUDA. */
yk_status yk_cuda_awq_load_packed(yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void *weights,
                                  const yk_linear_part *part, int64_t first_column, yk_err *err);

#endif
