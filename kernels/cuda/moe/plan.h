/* plan.h - the kernels that run a mixture of experts (kernels/mixture.h) for a number of rows. Only the plan decides
 * about fusions of this device; mixture.c follows the plan. Fewer rows also have the fusions of the lines below theirs,
 * unless noted.
 *
 *   rows, at most   fused parts, on GPUs of compute capability 9.0
 *   1               with experts of 4 bits all parts: single_token.h. Else: the combination in down's kernel
 *                   (gemm/grouped/single_row.cuh), the shared expert in both kernels, with 4-bit integers the routing
 *                   in gate and up's (routed_gemm.h)
 *   128             from 2 rows on a pending norm in the router's kernel; the shared expert in both GEMMs
 *   256             routing in the router's kernel (router.h) any             the norm or all-reduce that reads the
 *   result combines the slots of several rows
 *
 * On other GPUs, and for weights and shapes that a kernel does not take, the parts have separate launches. Experts
 * without a gate have their activation in the single-token kernel, or in a kernel after gate and up's, which then fuses
 * nothing. Latent experts and weighted inputs never share a kernel with the shared expert, and a separate kernel
 * combines their slots. A router with separate input rows (router_x) or expert scales uses at most the router's
 * kernel. */
#ifndef YK_KERNELS_CUDA_MOE_PLAN_H
#define YK_KERNELS_CUDA_MOE_PLAN_H

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/moe/single_token.h"
#include "kernels/mixture_calls.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fusions that a caller may forbid, for taps and in tests. */
typedef enum yk_moe_fusion {
  YK_MOE_FUSE_SINGLE_TOKEN = 1,
  YK_MOE_FUSE_ROUTING = 2, /* in gate and up's kernel */
  YK_MOE_FUSE_SHARED = 4,
  YK_MOE_FUSE_COMBINATION = 8,
  YK_MOE_FUSE_ALL = 15,
  YK_MOE_FUSE_WITH_TAPS = YK_MOE_FUSE_COMBINATION /* leaves all values between the parts in memory */
} yk_moe_fusion;

typedef enum yk_moe_norm { YK_MOE_NORM_DONE, YK_MOE_NORM_APART, YK_MOE_NORM_IN_ROUTER } yk_moe_norm;

typedef enum yk_moe_routing {
  YK_MOE_ROUTING_APART,  /* the router's GEMM, then route.h */
  YK_MOE_ROUTING_ROUTER, /* router.h */
  YK_MOE_ROUTING_IN_GATE_UP,
  YK_MOE_ROUTING_IN_SINGLE_TOKEN
} yk_moe_routing;

typedef enum yk_moe_shared {
  YK_MOE_SHARED_NONE,
  YK_MOE_SHARED_FIRST, /* before the experts: the ranks exchange its values, or the rank has no experts */
  YK_MOE_SHARED_APART, /* separate GEMMs */
  YK_MOE_SHARED_FUSED  /* in the kernel of the experts' GEMM */
} yk_moe_shared;

typedef enum yk_moe_combination {
  YK_MOE_COMBINATION_LEFT, /* the result is slots, which its reader combines */
  YK_MOE_COMBINATION_APART,
  YK_MOE_COMBINATION_IN_DOWN
} yk_moe_combination;

typedef struct yk_moe_plan {
  int32_t n_rows;
  bool is_single_token; /* one kernel runs routing, both GEMMs, the shared expert and the combination */
  yk_moe_norm norm;
  yk_moe_routing routing;
  yk_moe_shared shared_gate_up, shared_down;
  yk_moe_combination combination;
  bool shares_maxima; /* ranks exchange the largest inputs of down */
} yk_moe_plan;

/* A forward on this device: the mixture with the arguments of its parts. */
typedef struct yk_moe_forward {
  yk_cuda_device *cuda;
  const yk_mixture *mixture;
  const yk_mixture_args *args;
  yk_mixture_calls calls;
  yk_add_norm_args norm; /* if args->x is pending */
  yk_cuda_router router; /* w NULL: the router's layer is not one plain GEMM */
} yk_moe_forward;

yk_moe_forward yk_moe_forward_of(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args);

/* The experts' layers in the form that the single-token kernel takes. */
typedef struct yk_moe_single_token {
  yk_gemm_desc gate_up_desc, down_desc;
  yk_grouped_call gate_up, down;
  yk_cuda_routing routing;
  yk_single_token token;
} yk_moe_single_token;

/* yk_moe_single_token_of - fills *out, which points into itself and f. Returns false if the kernel cannot take the
 *   layers. */
bool yk_moe_single_token_of(const yk_moe_forward *f, yk_moe_single_token *out);

/* yk_moe_plan_of - the plan for the rows and pointers of f. allowed: bits of yk_moe_fusion. Thread: the device's. */
yk_moe_plan yk_moe_plan_of(const yk_moe_forward *f, unsigned allowed);

/* yk_moe_plan_routing - plans norm and routing as separate launches. norm: may be NULL. norm_may_fuse: into the
 *   router's kernel. */
void yk_moe_plan_routing(const yk_cuda_router *router, const yk_route_args *route, const yk_add_norm_args *norm,
                         bool norm_may_fuse, yk_moe_plan *plan);

/* yk_moe_plan_print - writes one line, for tests, such as "8 rows: norm in router, router kernel, shared gate_up fused,
 *   shared down fused, slots". */
void yk_moe_plan_print(const yk_moe_plan *plan, char *text, size_t n_bytes);

#ifdef __cplusplus
}
#endif
#endif
