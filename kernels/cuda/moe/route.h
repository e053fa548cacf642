/* route.h - routing of a mixture of experts: see kernels/experts.h. Asynchronous on the stream.
 *
 * With the router's GEMM, on GPUs of 9.0, where the router has up to 2^20 weights, or the row is alone:
 *   1 row                       every block          single_token.cu, with all that the experts do; routed_gemm.cu,
 *                                                    with their first GEMM
 *   up to 256 rows              clusters of 8 blocks router.cu: choices go to all blocks. Up to 128 rows with the norm
 *                                                    in front, where a thread has 16 bytes of a row
 * Of logits that are there, or that another GEMM makes:
 *   up to 256 rows, GPUs of 9.0 one cluster          blocks read each other's shared memory
 *   up to 32 rows, other GPUs   one thread block
 *   more                        two kernels          choose; counts through the scratch; assign
 *
 *   choose   a warp a row: scores in registers, top_groups groups, top_k experts, weights. Which rows have chosen an
 *            expert is words of 32 bits in shared memory
 *   assign   an expert's slots: those of experts before, then the bits of rows before. So slots do not depend on the
 *            order in which anything runs */
#ifndef YK_KERNELS_CUDA_MOE_ROUTE_H
#define YK_KERNELS_CUDA_MOE_ROUTE_H

#include <cuda_runtime_api.h>

#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_route_init - load the kernels of the current device. */
cudaError_t yk_cuda_route_init(void);

/* yk_cuda_launch_route - route of kernels/experts.h, of logits that are there: args.norm, args.router and args.x are
 * not looked at. Errors: those of the launch. */
cudaError_t yk_cuda_launch_route(const yk_route_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
