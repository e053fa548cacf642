/* mixture.c - see mixture.h. */
#include "kernels/cuda/moe/mixture.h"

#include <stdlib.h>

#include "kernels/cuda/device/memory.h"
#include "kernels/cuda/layout/layout.h"
#include "kernels/cuda/linear/format_wna16.h"
#include "kernels/cuda/linear/grouped.h"
#include "kernels/cuda/linear/linear.h"
#include "kernels/cuda/moe/combine.h"
#include "kernels/cuda/moe/plan.h"
#include "kernels/cuda/moe/route.h"
#include "kernels/cuda/moe/slot_rows.h"

/* ---- State of the device
 * -------------------------------------------------------------------------------------------- */

yk_status yk_cuda_moe_open(yk_cuda_device *cuda, yk_err *err)
{
  yk_cuda_moe_mailboxes *m = &cuda->mailboxes;
  YK_TRY(yk_cuda_check(cuda, yk_cuda_route_init(), "route init", err));
  YK_TRY(yk_cuda_check(cuda, yk_cuda_router_init(), "router init", err));
  YK_TRY(yk_cuda_check(cuda, yk_cuda_routed_gemm_init(&cuda->wna16), "routed GEMM init", err));
  YK_TRY(yk_cuda_check(cuda, yk_single_token_init(&cuda->wna16), "single token init", err));
  YK_TRY(yk_cuda_alloc(&cuda->base, yk_cuda_router_mailbox_bytes(), &m->router, err));
  YK_TRY(yk_cuda_alloc(&cuda->base, yk_cuda_routed_gemm_mailbox_bytes(), &m->routed_gemm, err));
  YK_TRY(yk_cuda_alloc(&cuda->base, yk_single_token_mailbox_bytes(), &m->single_token, err));
  YK_TRY(yk_cuda_check(cuda, yk_cuda_router_prepare(m->router, cuda->stream), "router", err));
  YK_TRY(yk_cuda_check(cuda, yk_cuda_routed_gemm_prepare(m->routed_gemm, cuda->stream), "routed GEMM", err));
  return yk_cuda_check(cuda, yk_single_token_prepare(m->single_token, cuda->stream), "single token", err);
}

void yk_cuda_moe_close(yk_cuda_device *cuda)
{
  cudaFree(cuda->mailboxes.router);
  cudaFree(cuda->mailboxes.routed_gemm);
  cudaFree(cuda->mailboxes.single_token);
}

/* ---- A mixture --------------------------------------------------------------------------------------------------- */

static int64_t staging_bytes(const yk_linear *linear, int64_t max_slots)
{
  const yk_cuda_gemm *gemm = yk_cuda_grouped_gemm(linear);
  return gemm ? yk_cuda_grouped_staging_bytes(gemm, max_slots) : 0;
}

yk_status yk_cuda_mixture_create(yk_device *dev, const yk_mixture_spec *spec, yk_mixture **out, yk_err *err)
{
  (void)dev;
  const int64_t max_slots = yk_route_max_slots(&spec->sizes.route, spec->sizes.max_rows);
  yk_mixture *m = malloc(sizeof *m);
  if (!m) return yk_err_set(err, YK_E_NOMEM, "no memory for a mixture of experts");
  *m = (yk_mixture){.spec = *spec,
                    .at = yk_mixture_lay_out(&spec->sizes, staging_bytes(spec->gate_up, max_slots),
                                             staging_bytes(spec->down, max_slots))};
  *out = m;
  return YK_OK;
}

void yk_cuda_mixture_destroy(yk_device *dev, yk_mixture *mixture)
{
  (void)dev;
  free(mixture);
}

/* ---- Running a plan ---------------------------------------------------------------------------------------------- */

static const yk_mixture_linear_ops linear_ops = {yk_cuda_linear_forward, yk_cuda_linear_maxima, yk_cuda_linear_sums,
                                                 yk_cuda_linear_scale};

/* Launches norm and routing, unless the plan fuses them into other kernels. router->norm is ignored. */
static yk_status run_routing(yk_cuda_device *cuda, const yk_moe_plan *plan, const yk_cuda_router *router,
                             const yk_route_args *route, const yk_add_norm_args *norm, yk_err *err)
{
  yk_device *dev = &cuda->base;
  yk_cuda_router own = *router;
  own.norm = plan->norm == YK_MOE_NORM_IN_ROUTER ? norm : NULL;
  if (plan->norm == YK_MOE_NORM_APART) YK_TRY(dev->ops->add_norm(dev, norm, err));
  if (plan->routing == YK_MOE_ROUTING_ROUTER)
    return yk_cuda_check(cuda, yk_cuda_launch_router(&own, route, cuda->mailboxes.router, cuda->stream), "router", err);
  if (plan->routing != YK_MOE_ROUTING_APART) return YK_OK;
  if (route->router) {
    const yk_linear_args logits = {
        .x = route->x, .y = route->logits, .n_tokens = route->n_tokens, .y_stride = route->logits_stride};
    YK_TRY(yk_cuda_linear_forward(dev, route->router, &logits, err));
  }
  return yk_cuda_check(cuda, yk_cuda_launch_route(route, cuda->stream), "route", err);
}

static yk_status launch_single_token(const yk_moe_forward *f, yk_err *err)
{
  yk_moe_single_token s;
  yk_cuda_device *cuda = f->cuda;
  if (!yk_moe_single_token_of(f, &s))
    return yk_err_set(err, YK_E_INVAL, "mixture: expected a plan of its own layers, found one of other layers");
  return yk_cuda_check(cuda, yk_single_token_launch(&cuda->wna16, &s.token, cuda->stream), "experts of a single token",
                       err);
}

static yk_status launch_routed_gemm(const yk_moe_forward *f, const yk_cuda_grouped_fusion *fusion, yk_err *err)
{
  yk_cuda_device *cuda = f->cuda;
  const yk_cuda_grouped_call call = yk_cuda_grouped_call_of(f->mixture->spec.gate_up, &f->calls.gate_up, fusion);
  const yk_gemm_desc desc = yk_gemm_desc_of(call.gemm);
  const yk_grouped_call grouped = yk_cuda_wna16_grouped_call(cuda, &call);
  const yk_cuda_routing routing = {
      .router = &f->router, .args = &f->calls.route, .mailbox = cuda->mailboxes.routed_gemm};
  yk_cuda_wna16_grouped_launched(cuda);
  return yk_cuda_check(cuda, yk_cuda_launch_routed_gemm(&cuda->wna16, &desc, &grouped, &routing, cuda->stream),
                       "routed GEMM", err);
}

/* The experts' inputs, unless they are the mixture's. */
static yk_status make_inputs(const yk_moe_forward *f, yk_err *err)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  yk_cuda_device *cuda = f->cuda;
  if (spec->latent_in) {
    YK_TRY(yk_mixture_begin(f->args, YK_MIXTURE_LATENT_IN, err));
    YK_TRY(yk_cuda_linear_forward(&cuda->base, spec->latent_in, &f->calls.latent_in, err));
  }
  if (!spec->sizes.weighs_inputs) return YK_OK;
  return yk_cuda_check(cuda, yk_cuda_launch_weigh(cuda->base.dtype, &f->calls.weigh, cuda->stream), "weighted inputs",
                       err);
}

/* Gate and up of the experts, with the shared expert's gate and up and the routing if the plan fuses them. */
static yk_status run_gate_up(const yk_moe_forward *f, const yk_moe_plan *plan, yk_err *err)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  yk_cuda_grouped_fusion fusion = {.combine = NULL};
  YK_TRY(make_inputs(f, err));
  YK_TRY(yk_mixture_begin(f->args, YK_MIXTURE_GATE_UP, err));
  if (plan->is_single_token) return launch_single_token(f, err);
  if (plan->shared_gate_up == YK_MOE_SHARED_APART)
    YK_TRY(yk_cuda_linear_forward(&f->cuda->base, spec->shared_gate_up, &f->calls.shared_gate_up, err));
  if (plan->shared_gate_up == YK_MOE_SHARED_FUSED) {
    fusion.shared = spec->shared_gate_up;
    fusion.shared_args = &f->calls.shared_gate_up;
  }
  if (plan->routing == YK_MOE_ROUTING_IN_GATE_UP) return launch_routed_gemm(f, &fusion, err);
  return yk_cuda_grouped_forward(f->cuda, spec->gate_up, &f->calls.gate_up, &fusion, false, err);
}

/* Whether a grouped GEMM of gate and up is launched. That kernel lets its successor start only after it has waited for
 * the routing, or has routed. */
static bool launches_gate_up(const yk_moe_forward *f)
{
  return yk_cuda_grouped_gemm(f->mixture->spec.gate_up) && f->calls.gate_up.max_slots > 0;
}

/* Down of the experts, with the shared expert's down and the combination if the plan fuses them. */
static yk_status run_down(const yk_moe_forward *f, const yk_moe_plan *plan, yk_err *err)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  yk_cuda_grouped_fusion fusion = {.combine = NULL};
  YK_TRY(yk_mixture_begin(f->args, YK_MIXTURE_DOWN, err));
  if (plan->shared_down == YK_MOE_SHARED_APART)
    YK_TRY(yk_cuda_linear_forward(&f->cuda->base, spec->shared_down, &f->calls.shared_down, err));
  if (plan->shared_down == YK_MOE_SHARED_FUSED) {
    fusion.shared = spec->shared_down;
    fusion.shared_args = &f->calls.shared_down;
  }
  if (plan->combination == YK_MOE_COMBINATION_IN_DOWN) fusion.combine = &f->calls.sum;
  return yk_cuda_grouped_forward(f->cuda, spec->down, &f->calls.down, &fusion, launches_gate_up(f), err);
}

/* Projects the combined rows of latent experts to hidden size, in args->y, where the shared expert's rows are added. */
static yk_status project_back(const yk_moe_forward *f, yk_err *err)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  yk_cuda_device *cuda = f->cuda;
  const int64_t n = (int64_t)f->args->n_rows * spec->sizes.hidden;
  YK_TRY(yk_mixture_begin(f->args, YK_MIXTURE_LATENT_OUT, err));
  YK_TRY(yk_cuda_linear_forward(&cuda->base, spec->latent_out, &f->calls.latent_out, err));
  if (!spec->sizes.has_shared) return YK_OK;
  return yk_cuda_check(
      cuda, yk_cuda_launch_add_rows(cuda->base.dtype, f->args->y->rows, f->calls.latent_out.y, n, cuda->stream),
      "sum of the shared expert", err);
}

/* Sets the result's state. The choices of several rows are complete before the successor of a grouped GEMM may begin.
 * The routing of a single token may be part of the GEMM's kernel and still run at that time. */
static void hand_on(const yk_moe_forward *f, const yk_moe_plan *plan)
{
  yk_partial *y = f->args->y;
  y->state = plan->combination == YK_MOE_COMBINATION_LEFT ? YK_PARTIAL_SLOTS : YK_PARTIAL_ROWS;
  y->slots = f->calls.sum;
  y->slots.choices_are_settled = plan->n_rows > 1 && launches_gate_up(f);
  yk_mixture_taps_fill(f->mixture, f->args);
}

yk_status yk_moe_run(yk_moe_forward *f, const yk_moe_plan *plan, yk_err *err)
{
  yk_device *dev = &f->cuda->base;
  const yk_mixture *m = f->mixture;
  const bool routes_first = plan->routing == YK_MOE_ROUTING_APART || plan->routing == YK_MOE_ROUTING_ROUTER;
  if (routes_first || plan->norm == YK_MOE_NORM_APART) {
    YK_TRY(yk_mixture_begin(f->args, YK_MIXTURE_ROUTING, err));
    YK_TRY(run_routing(f->cuda, plan, &f->router, &f->calls.route, &f->norm, err));
  }
  f->args->x->state = YK_NORMED_ROWS;
  if (plan->shared_gate_up == YK_MOE_SHARED_FIRST)
    YK_TRY(yk_mixture_run_shared(dev, &linear_ops, m, f->args, &f->calls, err));
  if (m->spec.gate_up) YK_TRY(run_gate_up(f, plan, err));
  if (plan->shares_maxima) YK_TRY(yk_mixture_share_maxima(dev, &linear_ops, m, f->args, &f->calls, err));
  if (m->spec.down && !plan->is_single_token) YK_TRY(run_down(f, plan, err));
  if (plan->combination == YK_MOE_COMBINATION_APART) YK_TRY(yk_cuda_combine(dev, &f->calls.sum, err));
  if (m->spec.latent_out) YK_TRY(project_back(f, err));
  hand_on(f, plan);
  return YK_OK;
}

yk_status yk_cuda_mixture_forward(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args, yk_err *err)
{
  yk_moe_forward f = yk_moe_forward_of(dev, mixture, args);
  YK_TRY(yk_cuda_enter(f.cuda, err));
  const yk_moe_plan plan = yk_moe_plan_of(&f, args->taps ? YK_MOE_FUSE_WITH_TAPS : YK_MOE_FUSE_ALL);
  return yk_moe_run(&f, &plan, err);
}

/* ---- Single parts
 * --------------------------------------------------------------------------------------------------- */

yk_status yk_cuda_route(yk_device *dev, const yk_route_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  yk_cuda_router router = {.x = args->x, .dtype = dev->dtype};
  yk_moe_plan plan = {.n_rows = args->n_tokens};
  YK_TRY(yk_cuda_enter(cuda, err));
  if (args->router) router.w = yk_cuda_linear_plain(args->router, &router.n, &router.k, &router.bias);
  yk_moe_plan_routing(&router, args, args->norm, true, &plan);
  return run_routing(cuda, &plan, &router, args, args->norm, err);
}

yk_status yk_cuda_grouped(yk_device *dev, const yk_linear *linear, const yk_grouped_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_grouped_forward(cuda, linear, args, NULL, false, err);
}

yk_status yk_cuda_combine(yk_device *dev, const yk_combine_args *args, yk_err *err)
{
  yk_cuda_device *cuda = yk_cuda_device_of(dev);
  YK_TRY(yk_cuda_enter(cuda, err));
  return yk_cuda_check(cuda, yk_cuda_launch_combine(dev->dtype, args, cuda->stream), "combine", err);
}

yk_status yk_cuda_partial_complete(yk_device *dev, const yk_partial *partial, yk_err *err)
{
  return partial->state == YK_PARTIAL_SLOTS ? yk_cuda_combine(dev, &partial->slots, err) : YK_OK;
}
