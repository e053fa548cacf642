/* routed_gemm.h - the routing of a single token and the grouped GEMM of the chosen experts in one kernel instead of
 * two: in a decode step of one row the boundary between the two kernels takes longer than the work of either. */
#ifndef YK_KERNELS_CUDA_MOE_ROUTED_GEMM_H
#define YK_KERNELS_CUDA_MOE_ROUTED_GEMM_H

#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/moe/router.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The routing at the start of a grouped call. mailbox: yk_cuda_routed_gemm_mailbox_bytes of device memory, prepared by
 * yk_cuda_routed_gemm_prepare, for the calls of one stream. */
typedef struct yk_cuda_routing {
  const yk_cuda_router *router;
  const yk_route_args *args;
  void *mailbox;
} yk_cuda_routing;

/* yk_cuda_routed_gemm_init - loads the kernels, on a GPU that can run any of them. */
cudaError_t yk_cuda_routed_gemm_init(const yk_gemm_gpu *gpu);

/* yk_cuda_routed_gemm_prepare - initialises a mailbox, once: every call leaves the mailbox ready for the next call. */
size_t yk_cuda_routed_gemm_mailbox_bytes(void);
cudaError_t yk_cuda_routed_gemm_prepare(void *mailbox, cudaStream_t stream);

/* yk_cuda_routed_gemm_takes - whether one kernel can do both: one row, up to 256 experts, all of them on this rank if
 *   they are in groups, weights of 4-bit integers, a GPU of compute capability 9.0. The logits have the same bits as
 *   those of yk_cuda_launch_router, which another rank may use.
 * yk_cuda_can_route_in_gemm - the same for weights of any encoding, for the single-token kernel. */
bool yk_cuda_routed_gemm_takes(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                               const yk_cuda_routing *routing);
bool yk_cuda_can_route_in_gemm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                               const yk_cuda_routing *routing);

/* yk_cuda_launch_routed_gemm - runs the route, then the grouped call, whose starts are those of the route. During the
 *   routing the kernel multiplies the same x with the shared expert's weight of the call. A following grouped GEMM may
 *   read the starts before it waits. */
cudaError_t yk_cuda_launch_routed_gemm(const yk_gemm_gpu *gpu, const yk_gemm_desc *desc, const yk_grouped_call *call,
                                       const yk_cuda_routing *routing, cudaStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
