/* router.h - the router of a mixture of experts and the routing of up to 256 rows in one kernel: see route.h. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTER_H
#define YK_KERNELS_CUDA_MOE_ROUTER_H

#include <cuda_runtime_api.h>

#include "base/dtype.h"
#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The router's GEMM: logits = x [n_tokens, k] W^T + bias, W [n, k], both of dtype. n: at least the route's experts.
 * bias: [n] or NULL. norm: norm to run before the router, whose y is x; NULL: x is already normalised. */
typedef struct yk_cuda_router {
  const void *x, *w;
  int64_t n, k;
  yk_dtype dtype;
  const yk_add_norm_args *norm;
  const float *bias;
} yk_cuda_router;

/* yk_cuda_router_init - loads the kernels of the current device. */
cudaError_t yk_cuda_router_init(void);

/* yk_cuda_router_prepare - initialises a mailbox, yk_cuda_router_mailbox_bytes of device memory for the calls of one
 *   stream, once: every call leaves the mailbox ready for the next call. */
size_t yk_cuda_router_mailbox_bytes(void);
cudaError_t yk_cuda_router_prepare(void *mailbox, cudaStream_t stream);

/* yk_cuda_router_takes - whether the kernel can run the call and is the faster choice: a router of up to 2^20 weights
 *   that the GEMM of few outputs takes, up to 128 experts, or 256 experts and 128 rows, and a GPU with clusters, all of
 *   which fit at once; a norm of one part and up to 128 rows of at most 2048 values, or 4096 with more than 128
 *   experts. A row's logits, choices, weights and norm have the same bits as from the other kernels, independent of the
 *   other rows of the batch. */
bool yk_cuda_router_takes(const yk_cuda_router *router, const yk_route_args *args);

/* yk_cuda_launch_router - args.logits [n_tokens, logits_stride] = x W^T + bias, then the route of these logits. W
 *   is read before the previous kernel has ended. Errors: those of the launch. */
cudaError_t yk_cuda_launch_router(const yk_cuda_router *router, const yk_route_args *args, void *mailbox,
                                  cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
