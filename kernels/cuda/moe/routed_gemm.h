/* routed_gemm.h - the routing of a single token together with the grouped GEMM of the experts that it chooses: one
 * kernel instead of two, since in a decode step of one row the boundary between them takes longer than either's work.
 * */
#ifndef YK_KERNELS_CUDA_MOE_ROUTED_GEMM_H
#define YK_KERNELS_CUDA_MOE_ROUTED_GEMM_H

#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/moe/router.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The routing that a grouped call begins with. mailbox: yk_cuda_routed_gemm_mailbox_bytes of device memory, prepared
 * by yk_cuda_routed_gemm_prepare, for the calls of one stream. */
typedef struct yk_cuda_routing {
  const yk_cuda_router *router;
  const yk_route_args *args;
  void *mailbox;
} yk_cuda_routing;

/* yk_cuda_routed_gemm_init - load the kernels, on a GPU that takes any. */
cudaError_t yk_cuda_routed_gemm_init(const yk_wna16_gpu *gpu);

/* yk_cuda_routed_gemm_prepare - a mailbox, once: every call leaves it ready for the next one. */
size_t yk_cuda_routed_gemm_mailbox_bytes(void);
cudaError_t yk_cuda_routed_gemm_prepare(void *mailbox, cudaStream_t stream);

/* yk_cuda_routed_gemm_takes - whether one kernel can do both: one row, up to 256 experts, all of them the rank's where
 * they are in groups, weights of 4 bits, a GPU of 9.0. Logits have the same bits as those of yk_cuda_launch_router,
 * which another rank may take. */
bool yk_cuda_routed_gemm_takes(const yk_wna16_gpu *gpu, const yk_wna16_desc *desc, const yk_grouped_call *call,
                               const yk_cuda_routing *routing);

/* yk_cuda_launch_routed_gemm - the route, then the grouped call, whose starts are the route's; its shared expert's
 * weight, which multiplies the same x, meanwhile. A grouped GEMM that follows may read the starts before it waits. */
cudaError_t yk_cuda_launch_routed_gemm(const yk_wna16_gpu *gpu, const yk_wna16_desc *desc, const yk_grouped_call *call,
                                       const yk_cuda_routing *routing, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
