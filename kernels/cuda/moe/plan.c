/* plan.c - see plan.h. */
#include "kernels/cuda/moe/plan.h"

#include <stdio.h>

#include "kernels/cuda/gemm/grouped/grouped.h"
#include "kernels/cuda/linear/format_wna16.h"
#include "kernels/cuda/linear/grouped.h"
#include "kernels/cuda/linear/linear.h"

yk_moe_forward yk_moe_forward_of(yk_device *dev, const yk_mixture *mixture, const yk_mixture_args *args)
{
  yk_moe_forward f = {.cuda = yk_cuda_device_of(dev), .mixture = mixture, .args = args};
  f.calls = yk_mixture_calls_of(mixture, args);
  if (args->x->state == YK_NORMED_PENDING) f.norm = yk_normed_add_norm(args->x);
  f.router = (yk_cuda_router){.x = f.calls.route.x, .dtype = dev->dtype};
  f.router.w = yk_cuda_linear_plain(mixture->spec.router, &f.router.n, &f.router.k, &f.router.bias);
  return f;
}

/* ---- Properties of layers ---------------------------------------------------------------------------------------- */

static bool has_experts(const yk_moe_forward *f)
{
  return f->mixture->spec.gate_up != NULL;
}

/* Whether a kernel can do more than the experts' GEMM: no kernel after the GEMM applies an activation to its slots. */
static bool may_fuse(const yk_cuda_gemm *gemm)
{
  return gemm && yk_cuda_gemm_is_wna16(gemm) && !yk_cuda_gemm_is_activated_after(gemm);
}

/* The experts' GEMM if the single-token kernel, which applies any activation, can include it: its x is the layer's x,
 * in order. */
static const yk_cuda_gemm *single_token_gemm(const yk_linear *linear)
{
  const yk_cuda_gemm *gemm = yk_cuda_grouped_gemm(linear);
  return gemm && yk_cuda_gemm_is_wna16(gemm) && gemm->x_size == 0 ? gemm : NULL;
}

/* The same for the other kernels of this folder. */
static const yk_cuda_gemm *fusable_gemm(const yk_linear *linear)
{
  const yk_cuda_gemm *gemm = single_token_gemm(linear);
  return may_fuse(gemm) ? gemm : NULL;
}

/* Whether the shared expert may run in the experts' kernels: it does not run in the three steps of all ranks. */
static bool may_fuse_shared(const yk_moe_forward *f)
{
  return has_experts(f) && f->mixture->spec.sizes.has_shared && !f->mixture->spec.sizes.shared_in_steps;
}

static yk_cuda_grouped_fusion gate_up_fusion(const yk_moe_forward *f, bool with_shared)
{
  if (!with_shared) return (yk_cuda_grouped_fusion){.combine = NULL};
  return (yk_cuda_grouped_fusion){.shared = f->mixture->spec.shared_gate_up, .shared_args = &f->calls.shared_gate_up};
}

static yk_cuda_grouped_fusion down_fusion(const yk_moe_forward *f, bool with_shared, bool combines)
{
  yk_cuda_grouped_fusion fusion = {.combine = combines ? &f->calls.sum : NULL};
  if (!with_shared) return fusion;
  fusion.shared = f->mixture->spec.shared_down;
  fusion.shared_args = &f->calls.shared_down;
  return fusion;
}

static yk_grouped_call wna16_call(const yk_moe_forward *f, const yk_linear *linear, const yk_grouped_args *args,
                                  const yk_cuda_grouped_fusion *fusion)
{
  const yk_cuda_grouped_call call = yk_cuda_grouped_call_of(linear, args, fusion);
  return yk_cuda_wna16_grouped_call(f->cuda, &call);
}

static yk_cuda_routing routing_of(const yk_moe_forward *f, void *mailbox)
{
  return (yk_cuda_routing){.router = &f->router, .args = &f->calls.route, .mailbox = mailbox};
}

/* ---- One kernel for a single token ------------------------------------------------------------------------------- */

bool yk_moe_single_token_of(const yk_moe_forward *f, yk_moe_single_token *out)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  const yk_cuda_gemm *gate_up = single_token_gemm(spec->gate_up), *down = fusable_gemm(spec->down);
  const bool shared = may_fuse_shared(f);
  const yk_cuda_grouped_fusion first = gate_up_fusion(f, shared), second = down_fusion(f, shared, true);
  if (!gate_up || !down || gate_up->kind != down->kind || !f->router.w) return false;
  *out = (yk_moe_single_token){.gate_up_desc = yk_gemm_desc_of(gate_up),
                               .down_desc = yk_gemm_desc_of(down),
                               .gate_up = wna16_call(f, spec->gate_up, &f->calls.gate_up, &first),
                               .down = wna16_call(f, spec->down, &f->calls.down, &second),
                               .routing = routing_of(f, f->cuda->mailboxes.single_token)};
  out->token = (yk_single_token){.gate_up_desc = &out->gate_up_desc,
                                 .down_desc = &out->down_desc,
                                 .activation = gate_up->activation,
                                 .gate_up = &out->gate_up,
                                 .down = &out->down,
                                 .routing = &out->routing};
  return shared == (out->gate_up.shared_expert.weights != NULL) && shared == (out->down.shared_expert.weights != NULL);
}

static bool takes_single_token(const yk_moe_forward *f)
{
  yk_moe_single_token s;
  if (f->args->n_rows != 1 || f->mixture->spec.sizes.shares_maxima || !yk_moe_single_token_of(f, &s)) return false;
  return yk_single_token_takes(&f->cuda->wna16, &s.token);
}

/* ---- Single parts ------------------------------------------------------------------------------------------------ */

void yk_moe_plan_routing(const yk_cuda_router *router, const yk_route_args *route, const yk_add_norm_args *norm,
                         bool norm_may_fuse, yk_moe_plan *plan)
{
  yk_cuda_router own = *router;
  own.norm = norm_may_fuse ? norm : NULL;
  bool takes = own.w && yk_cuda_router_takes(&own, route);
  plan->norm = !norm ? YK_MOE_NORM_DONE : own.norm && takes ? YK_MOE_NORM_IN_ROUTER : YK_MOE_NORM_APART;
  if (!takes && own.norm) {
    own.norm = NULL;
    takes = own.w && yk_cuda_router_takes(&own, route);
  }
  plan->routing = takes ? YK_MOE_ROUTING_ROUTER : YK_MOE_ROUTING_APART;
}

/* Whether the kernel of gate and up also does the routing. */
static bool gate_up_routes(const yk_moe_forward *f, bool with_shared)
{
  const yk_linear *linear = f->mixture->spec.gate_up;
  const yk_cuda_gemm *gemm = fusable_gemm(linear);
  if (f->args->n_rows != 1 || !gemm || !f->router.w) return false;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  const yk_cuda_grouped_fusion fusion = gate_up_fusion(f, with_shared);
  const yk_grouped_call call = wna16_call(f, linear, &f->calls.gate_up, &fusion);
  const yk_cuda_routing routing = routing_of(f, f->cuda->mailboxes.routed_gemm);
  return with_shared == (call.shared_expert.weights != NULL) &&
         yk_cuda_routed_gemm_takes(&f->cuda->wna16, &desc, &call, &routing);
}

static bool takes_shared(const yk_moe_forward *f, const yk_linear *linear, const yk_grouped_args *args,
                         const yk_cuda_grouped_fusion *fusion)
{
  const yk_cuda_gemm *gemm = fusable_gemm(linear);
  if (!gemm || args->max_slots == 0) return false;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  const yk_grouped_call call = wna16_call(f, linear, args, fusion);
  return call.shared_expert.weights && yk_gemm_grouped_takes_shared_expert(&f->cuda->wna16, &desc, &call);
}

static bool down_combines(const yk_moe_forward *f, bool with_shared)
{
  const yk_linear *linear = f->mixture->spec.down;
  const yk_cuda_gemm *gemm = yk_cuda_grouped_gemm(linear);
  if (!may_fuse(gemm) || f->calls.down.max_slots == 0) return false;
  const yk_gemm_desc desc = yk_gemm_desc_of(gemm);
  const yk_cuda_grouped_fusion fusion = down_fusion(f, with_shared, true);
  const yk_grouped_call call = wna16_call(f, linear, &f->calls.down, &fusion);
  return yk_gemm_grouped_combines(&f->cuda->wna16, &desc, &call);
}

/* The shared expert: fused if the kernel of gate and up, or of down, takes its layer. */
static void plan_shared(const yk_moe_forward *f, unsigned allowed, yk_moe_plan *plan)
{
  const bool combines = f->args->n_rows == 1 && (allowed & YK_MOE_FUSE_COMBINATION);
  const yk_cuda_grouped_fusion in_gate_up = gate_up_fusion(f, true), in_down = down_fusion(f, true, combines);
  if (!f->mixture->spec.sizes.has_shared) return;
  plan->shared_gate_up = plan->shared_down = may_fuse_shared(f) ? YK_MOE_SHARED_APART : YK_MOE_SHARED_FIRST;
  if (plan->shared_down == YK_MOE_SHARED_FIRST || !(allowed & YK_MOE_FUSE_SHARED)) return;
  if (plan->routing == YK_MOE_ROUTING_IN_GATE_UP
          ? gate_up_routes(f, true)
          : takes_shared(f, f->mixture->spec.gate_up, &f->calls.gate_up, &in_gate_up))
    plan->shared_gate_up = YK_MOE_SHARED_FUSED;
  if (takes_shared(f, f->mixture->spec.down, &f->calls.down, &in_down)) plan->shared_down = YK_MOE_SHARED_FUSED;
}

/* Rows of latent experts are combined before they are projected back. */
static yk_moe_combination combination_of(const yk_moe_forward *f, unsigned allowed, const yk_moe_plan *plan)
{
  const bool is_latent = f->mixture->spec.latent_out != NULL;
  if (f->args->n_rows != 1 || !has_experts(f)) return is_latent ? YK_MOE_COMBINATION_APART : YK_MOE_COMBINATION_LEFT;
  const bool with_shared = plan->shared_down == YK_MOE_SHARED_FUSED;
  return (allowed & YK_MOE_FUSE_COMBINATION) && down_combines(f, with_shared) ? YK_MOE_COMBINATION_IN_DOWN
                                                                              : YK_MOE_COMBINATION_APART;
}

/* The fusions that kernels have for this mixture. A kernel that routes and multiplies has no scales of experts, reads
 * one set of rows, and does nothing between the two; a shared expert in the experts' kernels needs the experts' inputs,
 * and a kernel that combines needs weights. */
static unsigned possible_fusions(const yk_moe_forward *f)
{
  const yk_mixture_spec *spec = &f->mixture->spec;
  const bool has_own_inputs = spec->sizes.weighs_inputs || spec->latent_in;
  unsigned fusions = YK_MOE_FUSE_ALL;
  if (has_own_inputs || spec->expert_scales || f->args->router_x)
    fusions &= ~(unsigned)(YK_MOE_FUSE_SINGLE_TOKEN | YK_MOE_FUSE_ROUTING);
  if (has_own_inputs) fusions &= ~(unsigned)YK_MOE_FUSE_SHARED;
  if (spec->sizes.weighs_inputs) fusions &= ~(unsigned)YK_MOE_FUSE_COMBINATION;
  return fusions;
}

yk_moe_plan yk_moe_plan_of(const yk_moe_forward *f, unsigned allowed)
{
  const bool is_pending = f->args->x->state == YK_NORMED_PENDING;
  /* The router's kernel has neither a norm of the sum nor a gain. */
  const bool is_plain = is_pending && !f->norm.result_w && f->norm.gain == 0;
  yk_moe_plan plan = {.n_rows = f->args->n_rows,
                      .norm = is_pending ? YK_MOE_NORM_APART : YK_MOE_NORM_DONE,
                      .shares_maxima = f->mixture->spec.sizes.shares_maxima};
  allowed &= possible_fusions(f);
  if ((allowed & YK_MOE_FUSE_SINGLE_TOKEN) && takes_single_token(f)) {
    plan.is_single_token = true;
    plan.routing = YK_MOE_ROUTING_IN_SINGLE_TOKEN;
    plan.combination = YK_MOE_COMBINATION_IN_DOWN;
    plan.shared_gate_up = plan.shared_down = may_fuse_shared(f)                  ? YK_MOE_SHARED_FUSED
                                             : f->mixture->spec.sizes.has_shared ? YK_MOE_SHARED_FIRST
                                                                                 : YK_MOE_SHARED_NONE;
    return plan;
  }
  if ((allowed & YK_MOE_FUSE_ROUTING) && gate_up_routes(f, false))
    plan.routing = YK_MOE_ROUTING_IN_GATE_UP;
  else
    yk_moe_plan_routing(&f->router, &f->calls.route, is_plain ? &f->norm : NULL, plan.n_rows > 1, &plan);
  plan_shared(f, allowed, &plan);
  plan.combination = combination_of(f, allowed, &plan);
  return plan;
}

/* ---- Text of a plan, for tests ----------------------------------------------------------------------------------- */

void yk_moe_plan_print(const yk_moe_plan *plan, char *text, size_t n_bytes)
{
  static const char *const norms[] = {"norm done", "norm apart", "norm in router"};
  static const char *const routings[] = {"routing apart", "router kernel", "routing in gate_up", "single token kernel"};
  static const char *const shared[] = {"none", "first", "apart", "fused"};
  static const char *const combinations[] = {"slots", "combination apart", "combination in down"};
  snprintf(text, n_bytes, "%d row%s: %s, %s, shared gate_up %s, shared down %s, %s%s", plan->n_rows,
           plan->n_rows == 1 ? "" : "s", norms[plan->norm], routings[plan->routing], shared[plan->shared_gate_up],
           shared[plan->shared_down], combinations[plan->combination],
           plan->shares_maxima ? ", largest inputs exchanged" : "");
}
