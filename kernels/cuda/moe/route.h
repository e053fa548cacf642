/* route.h - routing of a mixture of experts: see kernels/experts.h. Asynchronous on the stream.
 *
 *   With the router's GEMM, on GPUs of compute capability 9.0, if the router has up to 2^20 weights, or for a single
 *   row:
 *     1 row                       every block          single_token.cu, with all work of the experts; routed_gemm.cu,
 *                                 with their first GEMM
 *     up to 256 rows              clusters of 8 blocks router.cu: choices go to all blocks. Up to 128 rows also the
 *                                 norm before it, if 16 bytes of a row per thread cover the row
 *   From complete logits, or with the logits from another GEMM:
 *     up to 256 rows, GPUs of 9.0 one cluster          blocks read each other's shared memory
 *     up to 32 rows, other GPUs   one thread block
 *     more                        two kernels          choose; counts through the scratch; assign
 *
 *   choose   one warp per row: scores in registers, top_groups groups, top_k experts, weights. Words of 32 bits in
 *            shared memory mark the rows that have chosen an expert
 *   assign   an expert's slots follow the slots of preceding experts, then the bits of preceding rows. Slots therefore
 *            do not depend on the order of execution */
#ifndef YK_KERNELS_CUDA_MOE_ROUTE_H
#define YK_KERNELS_CUDA_MOE_ROUTE_H

#include <cuda_runtime_api.h>

#include "kernels/experts.h"

#ifdef __cplusplus
extern "C" {
#endif

/* yk_cuda_route_init - loads the kernels of the current device. */
cudaError_t yk_cuda_route_init(void);

/* yk_cuda_launch_route - route of kernels/experts.h, from complete logits: args.norm, args.router and args.x are
 *   ignored. Errors: those of the launch. */
cudaError_t yk_cuda_launch_route(const yk_route_args *args, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
