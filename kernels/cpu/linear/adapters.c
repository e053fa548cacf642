#include "kernels/cpu/linear/adapters.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

/* One part of one adapter; zeros: the adapter does not change the part. */
struct yk_cpu_adapter {
  float *a, *b;
  int32_t rank;
  float scale;
};

static int64_t a_floats(const yk_linear *linear)
{
  return linear->adapter_rank * linear->x_size;
}

static int64_t b_floats(const yk_linear *linear, int part)
{
  return linear->parts[part].n_panels * linear->adapter_rank * YK_CPU_PANEL;
}

void yk_cpu_adapters_lay_out(const yk_linear_spec *spec, yk_linear *linear)
{
  linear->n_adapters = spec->n_adapters;
  linear->adapter_rank = spec->n_adapters > 0 ? spec->adapter_rank : 0;
  for (int i = 0; i < linear->n_parts; i++) linear->adapter_floats += a_floats(linear) + b_floats(linear, i);
}

int64_t yk_cpu_adapters_bytes(const yk_linear *linear)
{
  return linear->n_adapters * linear->adapter_floats * (int64_t)sizeof(float);
}

yk_status yk_cpu_adapters_alloc(yk_device *dev, yk_linear *linear, yk_err *err)
{
  void *memory = NULL;
  if (linear->n_adapters == 0) return YK_OK;
  const size_t n = (size_t)linear->n_adapters * (size_t)linear->n_parts;
  linear->adapters = calloc(n, sizeof *linear->adapters);
  if (!linear->adapters)
    return yk_err_set(err, YK_E_NOMEM, "cpu device: no memory for %d adapters", linear->n_adapters);
  YK_TRY(yk_cpu_alloc(dev, (size_t)yk_cpu_adapters_bytes(linear) + sizeof(float), &memory, err));
  float *at = linear->adapter_memory = memory;
  for (size_t i = 0; i < n; i++) {
    struct yk_cpu_adapter *adapter = &linear->adapters[i];
    adapter->a = at;
    adapter->b = at + a_floats(linear);
    at = adapter->b + b_floats(linear, (int)(i % (size_t)linear->n_parts));
  }
  return YK_OK;
}

void yk_cpu_adapters_free(yk_device *dev, yk_linear *linear)
{
  yk_cpu_free(dev, linear->adapter_memory);
  free(linear->adapters);
}

/* b: [rank, outputs of the part]. */
static void put_in_panels(const yk_cpu_part *part, int32_t rank, const float *b, float *panels)
{
  for (int64_t panel = 0; panel < part->n_panels; panel++)
    for (int32_t r = 0; r < rank; r++) {
      int64_t first = panel * YK_CPU_PANEL, n = yk_min_i64(YK_CPU_PANEL, part->n - first);
      float *to = panels + (panel * rank + r) * YK_CPU_PANEL;
      memcpy(to, b + r * part->n + first, (size_t)n * sizeof *to);
      memset(to + n, 0, (size_t)(YK_CPU_PANEL - n) * sizeof *to);
    }
}

yk_status yk_cpu_linear_adapt(yk_device *dev, yk_linear *linear, int32_t adapter, const yk_linear_adapter *parts,
                              yk_err *err)
{
  (void)dev;
  if (adapter < 1 || adapter > linear->n_adapters)
    return yk_err_set(err, YK_E_INVAL, "linear: expected an adapter of 1 to %d, found %d", linear->n_adapters, adapter);
  for (int i = 0; i < linear->n_parts; i++)
    if (parts[i].rank < 0 || parts[i].rank > linear->adapter_rank)
      return yk_err_set(err, YK_E_INVAL, "linear part %d: expected an adapter of rank 0 to %d, found %d", i,
                        linear->adapter_rank, parts[i].rank);
  for (int i = 0; i < linear->n_parts; i++) {
    struct yk_cpu_adapter *to = &linear->adapters[(int64_t)(adapter - 1) * linear->n_parts + i];
    to->rank = parts[i].rank;
    to->scale = parts[i].scale;
    if (to->rank == 0) continue;
    memcpy(to->a, parts[i].a, (size_t)(to->rank * linear->x_size) * sizeof *to->a);
    put_in_panels(&linear->parts[i], to->rank, parts[i].b, to->b);
  }
  return YK_OK;
}

static const struct yk_cpu_adapter *part_of(const yk_linear *linear, int32_t adapter, int part)
{
  return &linear->adapters[(int64_t)(adapter - 1) * linear->n_parts + part];
}

void yk_cpu_adapters_project(const yk_cpu_device *cpu, const yk_linear *linear, int32_t adapter, const float *x,
                             float *products)
{
  if (adapter == 0) return;
  for (int i = 0; i < linear->n_parts; i++) {
    const struct yk_cpu_adapter *part = part_of(linear, adapter, i);
    float *to = products + (int64_t)i * linear->adapter_rank;
    cpu->simd->dot_rows(to, x, part->a, part->rank, (size_t)linear->x_size);
    for (int32_t r = 0; r < part->rank; r++) to[r] *= part->scale;
  }
}

void yk_cpu_adapters_add(const yk_cpu_device *cpu, const yk_linear *linear, int part, int32_t adapter,
                         const float *products, int64_t first, int64_t end, float *y)
{
  if (adapter == 0) return;
  const struct yk_cpu_adapter *of_part = part_of(linear, adapter, part);
  if (of_part->rank == 0) return; /* adding 0 would turn -0 into 0 */
  for (int64_t panel = first; panel < end; panel++)
    cpu->simd->weighted_sum(y + (panel - first) * YK_CPU_PANEL, 1.0f, products + (int64_t)part * linear->adapter_rank,
                            of_part->b + panel * of_part->rank * YK_CPU_PANEL, of_part->rank, YK_CPU_PANEL);
}
