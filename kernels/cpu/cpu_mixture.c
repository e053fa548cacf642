/* cpu_mixture.c - a mixture of experts on the CPU device: all parts, one after the other (kernels/mixture.h). */
#include <stdlib.h>

#include "base/checked.h"
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

/* y += x, rounded once. */
typedef struct sum_context {
  yk_cpu_device *cpu;
  void *y;
  const void *x;
  int64_t hidden;
} sum_context;

static void add_rows(void *context, int thread, int64_t begin, int64_t end)
{
  enum { BLOCK = 256 };
  (void)thread;
  const sum_context *c = context;
  const yk_dtype dtype = c->cpu->base.dtype;
  float sums[BLOCK], x[BLOCK];
  for (int64_t i = begin * c->hidden; i < end * c->hidden; i += BLOCK) {
    const size_t n = (size_t)yk_min_i64(BLOCK, end * c->hidden - i);
    c->cpu->simd->to_f32(sums, dtype, yk_cpu_at(dtype, c->y, i), n);
    c->cpu->simd->to_f32(x, dtype, yk_cpu_at(dtype, c->x, i), n);
    for (size_t j = 0; j < n; j++) sums[j] += x[j];
    c->cpu->simd->from_f32(yk_cpu_at(dtype, c->y, i), dtype, sums, n);
  }
}

/* Projects the combined rows of latent experts to hidden size, in args->y, where the shared expert's rows are added. */
static yk_status project_back(yk_device *dev, const yk_mixture *m, const yk_mixture_args *args,
                              const yk_mixture_calls *calls, yk_err *err)
{
  sum_context sum = {yk_cpu_device_of(dev), args->y->rows, calls->latent_out.y, m->spec.sizes.hidden};
  YK_TRY(yk_mixture_begin(args, YK_MIXTURE_LATENT_OUT, err));
  YK_TRY(yk_cpu_linear_forward(dev, m->spec.latent_out, &calls->latent_out, err));
  if (m->spec.sizes.has_shared) yk_cpu_pool_run(sum.cpu->pool, args->n_rows, 8, add_rows, &sum);
  return YK_OK;
}

static yk_status run_experts(yk_device *dev, const yk_mixture *m, const yk_mixture_args *args,
                             const yk_mixture_calls *calls, yk_err *err)
{
  if (m->spec.latent_in) {
    YK_TRY(yk_mixture_begin(args, YK_MIXTURE_LATENT_IN, err));
    YK_TRY(yk_cpu_linear_forward(dev, m->spec.latent_in, &calls->latent_in, err));
  }
  if (m->spec.gate_up) {
    YK_TRY(yk_mixture_begin(args, YK_MIXTURE_GATE_UP, err));
    if (m->spec.sizes.weighs_inputs) yk_cpu_weigh(dev, &calls->weigh);
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
  if (m->spec.latent_out) YK_TRY(project_back(dev, m, args, &calls, err));
  args->y->state = YK_PARTIAL_ROWS;
  yk_mixture_taps_fill(m, args);
  return YK_OK;
}

yk_status yk_cpu_partial_complete(yk_device *dev, const yk_partial *partial, yk_err *err)
{
  return partial->state == YK_PARTIAL_SLOTS ? yk_cpu_combine(dev, &partial->slots, err) : YK_OK;
}
