/* single_token.h - a single token through a mixture of experts in one kernel: routing, both grouped GEMMs, the
 * combination, and a shared expert's layers beside. In a decode step of one row the boundaries between kernels, and
 * what each of them does before its first weights are there, take longer than the weights. */
#ifndef YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_H
#define YK_KERNELS_CUDA_MOE_SINGLE_TOKEN_H

#include "kernels/cuda/moe/routed_gemm.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The two grouped calls: the first gives the x of the second, whose combine gives y. Their a shared expert's weights
 * are a shared expert's. mailbox of the routing: yk_single_token_mailbox_bytes of device memory, prepared by
 * yk_single_token_prepare, for the launches of one stream. */
typedef struct yk_single_token {
  const yk_wna16_desc *gate_up_desc, *down_desc;
  const yk_grouped_call *gate_up, *down;
  const yk_cuda_routing *routing;
} yk_single_token;

/* yk_single_token_init - load the kernels, on a GPU that takes any. */
cudaError_t yk_single_token_init(const yk_wna16_gpu *gpu);

/* yk_single_token_prepare - a mailbox, once: every launch leaves it ready for the next one. */
size_t yk_single_token_mailbox_bytes(void);
cudaError_t yk_single_token_prepare(void *mailbox, cudaStream_t stream);

/* yk_single_token_takes - whether the kernel can do it: what yk_cuda_routed_gemm_takes and yk_wna16_grouped_combines
 * both take, with panels of one layout, and a shared expert's weights in both calls or in neither, as far as shared
 * memory and the mailbox hold what is between the GEMMs. */
bool yk_single_token_takes(const yk_wna16_gpu *gpu, const yk_single_token *row);

/* yk_single_token_launch - all that a route writes, and the combination's y. What is between, the y of the first call
 * and of the a shared expert's weights and the slots of the second, is not written. Sums are those of the two calls,
 * added up in another order, which depends on the shapes and on the number of multiprocessors. The starts are there
 * once the launch has ended. */
cudaError_t yk_single_token_launch(const yk_wna16_gpu *gpu, const yk_single_token *row, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
