/* op_cuda_mixture.h - execution plans of a mixture on a GPU: the default plan, and plans with fewer fusions. */
#ifndef YK_TESTS_OP_CUDA_MIXTURE_H
#define YK_TESTS_OP_CUDA_MIXTURE_H

#include "kernels/cuda/device/state.h"
#include "kernels/cuda/moe/plan.h"
#include "op/op_cases_mixture.h"

static inline yk_status run_with(unsigned allowed, yk_device *dev, const yk_mixture *mixture,
                                 const yk_mixture_args *args, yk_moe_plan *plan, yk_err *err)
{
  yk_moe_forward f = yk_moe_forward_of(dev, mixture, args);
  *plan = yk_moe_plan_of(&f, allowed);
  return yk_moe_run(&f, plan, err);
}

/* The device's own plan has one kernel for a single token exactly for the cases that are marked. */
static inline yk_status run_as_planned(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                       const yk_mixture_args *args, yk_err *err)
{
  yk_moe_plan plan;
  const bool is_hopper = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  YK_TRY(run_with(YK_MOE_FUSE_ALL, dev, mixture, args, &plan, err));
  assert_int_equal(plan.is_single_token, is_hopper && c->is_in_one);
  return YK_OK;
}

/* Routing, the shared expert and the combination in the kernels of the experts' GEMMs. */
static inline yk_status run_in_two_kernels(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                           const yk_mixture_args *args, yk_err *err)
{
  yk_moe_plan plan;
  const bool is_hopper = yk_cuda_device_of(dev)->wna16.path == YK_GEMM_WGMMA;
  YK_TRY(run_with(YK_MOE_FUSE_ALL & ~YK_MOE_FUSE_SINGLE_TOKEN, dev, mixture, args, &plan, err));
  if (is_hopper && c->is_in_one && !c->is_fp4 && !c->is_plain)
    assert_int_equal(plan.routing, YK_MOE_ROUTING_IN_GATE_UP);
  if (is_hopper && c->is_in_one) assert_int_equal(plan.combination, YK_MOE_COMBINATION_IN_DOWN);
  return YK_OK;
}

static inline yk_status run_apart(const mixture_case *c, yk_device *dev, const yk_mixture *mixture,
                                  const yk_mixture_args *args, yk_err *err)
{
  (void)c;
  yk_moe_plan plan;
  return run_with(0, dev, mixture, args, &plan, err);
}

/* In every way. Slots of a single token are rounded only in separate kernels. */
static inline void check_cuda_mixture(const op_target *target, yk_dtype dtype, const mixture_case *c)
{
  static const mixture_way ways[] = {run_as_planned, run_in_two_kernels, run_apart, mixture_tapped, mixture_whole};
  check_mixture(target, dtype, c, ways, sizeof ways / sizeof *ways, 14.0 * op_unit_roundoff(dtype));
}

#endif
