/* cpu_mixture.c - a mixture of experts on the CPU device: all parts, one after the other (kernels/mixture.h). */
#include <stdlib.h>

#include "kernels/cpu/cpu_device.h"
#include "kernels/mixture_calls.h"

static const yk_mixture_linear_ops linear_ops = {yk_cpu_linear_forward, yk_cpu_linear_maxima, yk_cpu_linear_sums,
                                                 yk_cpu_linear_scale};

yk_status yk_cpu_mixture_create(yk_device *dev, const yk_mixture_spec *spec, yk_mixture **out, yk_err *err)
{
  (void)dev;
  yk_mixture *m = malloc(sizeof *m);
  if (!m) return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for a mixture of experts");
  *m = (yk_mixture){.spec = *spec, .at = yk_mixture_lay_out(&spec->sizes, 0, 0)};
  *out = m;
  return YK_OK;
}

void yk_cpu_mixture_destroy(yk_device *dev, yk_mixture *mixture)
{
  (void)dev;
  free(mixture);
}

int64_t yk_cpu_mixture_scratch_bytes(const yk_mixture_sizes *sizes, const yk_linear_spec *gate_up,
                                     const yk_linear_spec *down)
{
  (void)gate_up, (void)down;
  return yk_mixture_lay_out(sizes, 0, 0).end;
}

static yk_status run_experts(yk_device *dev, const yk_mixture *m, const yk_mixture_args *args,
                             const yk_mixture_calls *calls, yk_err *err)
{
  if (m->spec.gate_up) {
    YK_TRY(yk_mixture_begin(args, YK_MIXTURE_GATE_UP, err));
    YK_TRY(yk_cpu_grouped_forward(dev, m->spec.gate_up, &calls->gate_up, err));
  }
  if (m->spec.sizes.shares_maxima) YK_TRY(yk_mixture_share_maxima(dev, &linear_ops, m, args, calls, err));
  if (!m->spec.down) return YK_OK;
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_DOWN, err));
  return yk_cpu_grouped_forward(dev, m->spec.down, &calls->down, err);
}

yk_status yk_cpu_mixture_forward(yk_device *dev, const yk_mixture *m, const yk_mixture_args *args, yk_err *err)
{
  const yk_mixture_calls calls = yk_mixture_calls_of(m, args);
  const yk_add_norm_args norm = yk_normed_add_norm(args->x);
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_ROUTING, err));
  if (args->x->state == YK_NORMED_PENDING) YK_TRY(yk_cpu_add_norm(dev, &norm, err));
  args->x->state = YK_NORMED_ROWS;
  YK_TRY(yk_cpu_route(dev, &calls.route, err));
  if (m->spec.sizes.has_shared) YK_TRY(yk_mixture_run_shared(dev, &linear_ops, m, args, &calls, err));
  YK_TRY(run_experts(dev, m, args, &calls, err));
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_COMBINATION, err));
  YK_TRY(yk_cpu_combine(dev, &calls.sum, err));
  args->y->state = YK_PARTIAL_ROWS;
  yk_mixture_taps_fill(m, args);
  return YK_OK;
}

yk_status yk_cpu_partial_complete(yk_device *dev, const yk_partial *partial, yk_err *err)
{
  return partial->state == YK_PARTIAL_SLOTS ? yk_cpu_combine(dev, &partial->slots, err) : YK_OK;
}
