/* single_token.h - a single token through a mixture of experts in one kernel: routing, both grouped GEMMs, the
 * combination, and a shared expert's layers. In a decode step of one row, the boundaries between kernels and the
 * latency of each kernel's first weights take longer than loading the weights. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_H
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_H

#include "kernels/cuda/moe/routed_gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The two grouped calls: the y of the first is the x of the second, whose combine gives the result. Either both calls
 * have a shared expert or neither. mailbox of the routing: yk_single_token_mailbox_bytes of device memory, prepared by
 * yk_single_token_prepare, for the launches of one stream. */
typedef struct yk_single_token {
  const yk_gemm_desc *gate_up_desc, *down_desc;
  yk_activation activation; /* between the GEMMs; that of gate_up_desc if gated */
  const yk_grouped_call *gate_up, *down;
  const yk_cuda_routing *routing;
} yk_single_token;

/* yk_single_token_init - loads the kernels, on a GPU that can run any of them. */
cudaError_t yk_single_token_init(const yk_gemm_gpu *gpu);

/* yk_single_token_prepare - initialises a mailbox, once: every launch leaves the mailbox ready for the next launch. */
size_t yk_single_token_mailbox_bytes(void);
cudaError_t yk_single_token_prepare(void *mailbox, cudaStream_t stream);

/* yk_single_token_takes - whether the kernel can run the calls: weights are 4-bit integers or floats,
 *   yk_cuda_can_route_in_gemm takes the first call and yk_gemm_grouped_combines the second, their panels have one
 *   layout, both calls or neither have a shared expert's weights, and shared memory and the mailbox hold the values
 *   between the GEMMs. */
bool yk_single_token_takes(const yk_gemm_gpu *gpu, const yk_single_token *row);

/* yk_single_token_launch - writes all outputs of the route, and the combination's y. The values between the parts, that
 *   is the y of the first call, the shared expert's inner values and the slots of the second call, are not written.
 *   Sums are those of the two calls in another order of additions, which depends on the shapes and on the number of
 *   multiprocessors. The starts are complete once the launch has ended. */
cudaError_t yk_single_token_launch(const yk_gemm_gpu *gpu, const yk_single_token *row, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
