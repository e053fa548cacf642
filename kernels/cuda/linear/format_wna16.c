/* format_wna16.c - the GEMMs of quantised weights and 16-bit activations (gemm/wna16.h) as kinds of GEMM, one for each
 * encoding of the weights. Nobody else of this folder calls that GEMM. */
#include "kernels/cuda/linear/format_wna16.h"

#include <stdlib.h>

#include "kernels/cuda/experts/routed_gemm.h"
#include "kernels/cuda/gemm/wna16.h"
#include "kernels/cuda/gemm/wna16_grouped.h"
#include "kernels/cuda/gemm/wna16_sizes.h"

/* ---- Arithmetic, on any machine ---------------------------------------------------------------------------------- */

yk_wna16_desc yk_wna16_desc_of(const yk_cuda_gemm *gemm)
{
  return (yk_wna16_desc){.k = gemm->k,
                         .n = gemm->n,
                         .group = gemm->key,
                         .dtype = gemm->dtype,
                         .gate_up = gemm->gate_up,
                         .encoding = (yk_wna16_encoding)gemm->kind->variant};
}

size_t yk_wna16_packed_bytes(const yk_wna16_desc *desc)
{
  return (size_t)(yk_wna16_panels_bytes(desc) + yk_wna16_row_scale_bytes(desc));
}

static int64_t weight_bytes(const yk_cuda_gemm *gemm)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(gemm);
  return (int64_t)yk_wna16_packed_bytes(&desc);
}

#ifdef YOKE_HAVE_CUDA
#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/device/state.h"
#include "kernels/cuda/linear/linear.h"

/* ---- The GEMM ---------------------------------------------------------------------------------------------------- */

static yk_status plan(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, void **out, yk_err *err)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(gemm);
  yk_wna16_plans *plans = malloc(sizeof *plans);
  if (!plans) return yk_err_set(err, YK_E_NOMEM, "no memory for the plans of a GEMM");
  yk_wna16_plans_choose(&cuda->wna16, &desc, plans);
  *out = plans;
  return YK_OK;
}

static size_t workspace_bytes(const yk_cuda_device *cuda, const yk_cuda_gemm *gemm, int32_t max_tokens)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(gemm);
  return yk_wna16_workspace_bytes(&cuda->wna16, &desc, max_tokens);
}

static bool writes_in_place(const yk_cuda_gemm *gemm, const void *y, int64_t y_stride)
{
  return y_stride == yk_cuda_gemm_columns_of_y(gemm) && (uintptr_t)y % 16 == 0;
}

static yk_status forward(yk_cuda_device *cuda, const yk_cuda_gemm_call *call, yk_err *err)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(call->gemm);
  yk_wna16_call wna16 = {.packed = call->weights,
                         .bias = call->bias,
                         .x = call->x,
                         .y = call->y,
                         .m = call->n_rows,
                         .workspace = cuda->gemm_workspace.ptr,
                         .second_half = cuda->gemm_second_half};
  cuda->gemm_second_half = !cuda->gemm_second_half;
  return yk_cuda_blame(cuda, yk_wna16_forward(&cuda->wna16, &desc, call->plan, &wna16, cuda->stream, err), err);
}

static yk_grouped_call grouped_call_of(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call)
{
  return (yk_grouped_call){.weights = call->weights,
                           .bias = call->bias,
                           .bias_dtype = call->gemm->dtype,
                           .matrix_bytes = call->matrix_bytes,
                           .n_matrices = call->n_matrices,
                           .n_rows = call->args->n_rows,
                           .x = call->args->x,
                           .row_of_slot = call->args->row_of_slot,
                           .starts = call->args->starts,
                           .max_slots = call->args->max_slots,
                           .y = call->args->y,
                           .second_half = cuda->gemm_second_half,
                           .starts_are_settled = call->starts_are_settled,
                           .next_tile = cuda->next_tiles + (cuda->second_next_tile ? 1 : 0),
                           .combine = call->args->combine};
}

static bool combines(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(call->gemm);
  const yk_grouped_call grouped = grouped_call_of(cuda, call);
  return yk_wna16_grouped_combines(&cuda->wna16, &desc, &grouped);
}

/* The call's routing, where one kernel does both. */
static bool find_routing(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_cuda_router *router,
                         yk_cuda_routing *out)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(call->gemm);
  const yk_grouped_call grouped = grouped_call_of(cuda, call);
  const yk_route_args *route = call->args->route;
  if (!route || !route->router) return false;
  *router = (yk_cuda_router){.x = route->x, .dtype = desc.dtype};
  router->w = yk_cuda_linear_plain(route->router, &router->n, &router->k);
  *out = (yk_cuda_routing){.router = router, .args = route, .exchange = cuda->routing_exchange};
  return router->w && yk_cuda_routed_gemm_takes(&cuda->wna16, &desc, &grouped, out);
}

static bool routes(const yk_cuda_device *cuda, const yk_cuda_grouped_call *call)
{
  yk_cuda_router router;
  yk_cuda_routing routing;
  return find_routing(cuda, call, &router, &routing);
}

static yk_status forward_grouped(yk_cuda_device *cuda, const yk_cuda_grouped_call *call, yk_err *err)
{
  const yk_wna16_desc desc = yk_wna16_desc_of(call->gemm);
  const yk_grouped_call grouped = grouped_call_of(cuda, call);
  yk_cuda_router router;
  yk_cuda_routing routing;
  cuda->gemm_second_half = !cuda->gemm_second_half;
  cuda->second_next_tile = !cuda->second_next_tile;
  if (find_routing(cuda, call, &router, &routing))
    return yk_cuda_check(cuda, yk_cuda_launch_routed_gemm(&cuda->wna16, &desc, &grouped, &routing, cuda->stream),
                         "routed GEMM", err);
  return yk_cuda_blame(cuda, yk_wna16_grouped_forward(&cuda->wna16, &desc, &grouped, cuda->stream, err), err);
}

#define FUNCTIONS                                                                                                      \
  .plan = plan, .workspace_bytes = workspace_bytes, .writes_in_place = writes_in_place, .forward = forward,            \
  .forward_grouped = forward_grouped, .routes = routes, .combines = combines
#else
#define FUNCTIONS .plan = NULL
#endif

/* ---- The kinds --------------------------------------------------------------------------------------------------- */

const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int4 = {
    .name = "W4A16", .variant = YK_WNA16_INT4, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_int8 = {
    .name = "W8A16", .variant = YK_WNA16_INT8, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};
const yk_cuda_gemm_kind yk_cuda_gemm_wna16_fp8 = {
    .name = "W8A16 of floats", .variant = YK_WNA16_FP8, .has_epilogue = true, .weight_bytes = weight_bytes, FUNCTIONS};
