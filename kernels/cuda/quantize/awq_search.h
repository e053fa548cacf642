/* awq_search.h - the kernels other than GEMMs of the search for scales and limits: launches, asynchronous on the
 * stream. See kernels/awq_quantize.h; found->first_bad must be -1 at first, and sums are added to found. */
#ifndef YK_KERNELS_CUDA_QUANTIZE_AWQ_SEARCH_H
#define YK_KERNELS_CUDA_QUANTIZE_AWQ_SEARCH_H

#include <cuda_runtime_api.h>

#include "kernels/awq_quantize.h"

#ifdef __cplusplus
extern "C" {
#endif

cudaError_t yk_cuda_launch_awq_observe(yk_dtype dtype, const yk_awq_observe_args *args, cudaStream_t stream);

/* errors [n, k] <- the quantised w, with the scales undone, minus w. first_output: offset of this slice in its weight,
 * for found. */
cudaError_t yk_cuda_launch_awq_errors(const yk_awq_floats *weight, int64_t first_output, float *errors,
                                      yk_awq_found *found, cudaStream_t stream);

/* found->loss += the sum of the squares of n numbers. partials: scratch of YK_CUDA_AWQ_PARTIALS. */
enum { YK_CUDA_AWQ_PARTIALS = 256 };
cudaError_t yk_cuda_launch_awq_add_squares(const float *y, int64_t n, double *partials, yk_awq_found *found,
                                           cudaStream_t stream);

/* out [n_rows, k] <- rows / k_scales (NULL: 1). */
cudaError_t yk_cuda_launch_awq_divide(const float *rows, const float *k_scales, int64_t n_rows, int64_t k, float *out,
                                      cudaStream_t stream);

/* changes [n, k] <- the change of w by clamping at `factor` times the greatest |w| of a group and quantising. */
cudaError_t yk_cuda_launch_awq_changes(const yk_awq_floats *weight, int64_t first_output, float factor, float *changes,
                                       yk_awq_found *found, cudaStream_t stream);

/* If the sum of changes times dots over a group is less than losses [n, k / group], or is_first: sets the loss to that
 * sum, and the limit to that of factor. */
cudaError_t yk_cuda_launch_awq_take_better(const yk_awq_floats *weight, float factor, int is_first,
                                           const float *changes, const float *dots, float *losses, float *limits,
                                           cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
