#include "model/adapted.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

typedef struct part_place {
  yk_weight_role role;
  yk_range k, n;
  int32_t *outputs; /* [size of n] rows of B, or NULL: n */
  bool has_offset;  /* weight.x_offset is given: the module's input has an offset, whose product is part of the bias */
} part_place;

struct yk_adapted_layer {
  yk_linear *linear;
  int32_t layer;
  int n_parts;
  int64_t x_size;
  int32_t *columns; /* [x_size] or NULL */
  part_place parts[YK_MAX_LINEAR_PARTS];
};

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the places of adapters");
}

static yk_status copy_ids(const int32_t *ids, int64_t n, int32_t **out, yk_err *err)
{
  if (!ids) return YK_OK;
  *out = malloc((size_t)(n + 1) * sizeof **out);
  if (!*out) return no_memory(err);
  memcpy(*out, ids, (size_t)n * sizeof **out);
  return YK_OK;
}

static yk_status grow(yk_adapted *adapted, yk_err *err)
{
  enum { FIRST = 64 };
  if (adapted->n < adapted->capacity) return YK_OK;
  size_t capacity = adapted->capacity ? 2 * adapted->capacity : FIRST;
  struct yk_adapted_layer *layers = realloc(adapted->layers, capacity * sizeof *layers);
  if (!layers) return no_memory(err);
  adapted->layers = layers;
  adapted->capacity = capacity;
  return YK_OK;
}

yk_status yk_adapted_add(yk_adapted *adapted, const yk_adapted_place *place, const yk_linear_spec *spec,
                         yk_linear *linear, yk_err *err)
{
  if (spec->n_adapters == 0) return YK_OK;
  YK_TRY(grow(adapted, err));
  struct yk_adapted_layer *layer = &adapted->layers[adapted->n++];
  *layer = (struct yk_adapted_layer){
      .linear = linear, .layer = place->layer, .n_parts = spec->n_parts, .x_size = yk_range_size(spec->parts[0].k)};
  YK_TRY(copy_ids(place->columns, layer->x_size, &layer->columns, err));
  for (int i = 0; i < spec->n_parts; i++) {
    const yk_linear_part *part = &spec->parts[i];
    layer->parts[i] =
        (part_place){.role = place->roles[i], .k = part->k, .n = part->n, .has_offset = part->weight.x_offset != NULL};
    YK_TRY(copy_ids(part->n_order, yk_range_size(part->n), &layer->parts[i].outputs, err));
  }
  return YK_OK;
}

void yk_adapted_free(yk_adapted *adapted)
{
  for (size_t i = 0; i < adapted->n; i++) {
    free(adapted->layers[i].columns);
    for (int part = 0; part < adapted->layers[i].n_parts; part++) free(adapted->layers[i].parts[part].outputs);
  }
  free(adapted->layers);
  *adapted = (yk_adapted){0};
}

/* Slices of a module's matrices, as yk_linear_adapter has them: a [rank, x_size], b [rank, outputs of the part]. */
static void fill_slices(const struct yk_adapted_layer *layer, const part_place *part, const yk_adapter_module *module,
                        float *a, float *b)
{
  const int64_t n = yk_range_size(part->n);
  for (int32_t r = 0; r < module->rank; r++)
    for (int64_t i = 0; i < layer->x_size; i++)
      *a++ = yk_adapter_element(&module->a, r, layer->columns ? layer->columns[i] : part->k.begin + i);
  for (int64_t i = 0; i < n; i++) {
    const int64_t row = part->outputs ? part->outputs[i] : part->n.begin + i;
    for (int32_t r = 0; r < module->rank; r++) b[r * n + i] = yk_adapter_element(&module->b, row, r);
  }
}

static yk_status check_part(const part_place *part, const yk_adapter_module *module, yk_err *err)
{
  if (!module || !part->has_offset) return YK_OK;
  return yk_err_set(
      err, YK_E_UNSUPPORTED,
      "adapter: tensor %s: the norm before the module has an offset (msmodelslim): adapters of such modules "
      "are not supported",
      module->tensor);
}

static yk_status set_layer(const struct yk_adapted_layer *layer, yk_device *dev, yk_model_family family,
                           const yk_adapter *adapter, int32_t number, yk_err *err)
{
  const yk_adapter_module *modules[YK_MAX_LINEAR_PARTS];
  yk_linear_adapter parts[YK_MAX_LINEAR_PARTS] = {{0}};
  int64_t n_floats = 0;
  for (int i = 0; i < layer->n_parts; i++) {
    modules[i] = yk_adapter_find(adapter, family, layer->parts[i].role, layer->layer);
    YK_TRY(check_part(&layer->parts[i], modules[i], err));
    if (modules[i]) n_floats += modules[i]->rank * (layer->x_size + yk_range_size(layer->parts[i].n));
  }
  float *floats = malloc((size_t)(n_floats + 1) * sizeof *floats), *at = floats;
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld numbers of an adapter", (long long)n_floats);
  for (int i = 0; i < layer->n_parts; i++) {
    if (!modules[i]) continue;
    float *b = at + modules[i]->rank * layer->x_size;
    fill_slices(layer, &layer->parts[i], modules[i], at, b);
    parts[i] = (yk_linear_adapter){.a = at, .b = b, .rank = modules[i]->rank, .scale = modules[i]->scale};
    at = b + modules[i]->rank * yk_range_size(layer->parts[i].n);
  }
  yk_status status = dev->ops->linear_adapt(dev, layer->linear, number, parts, err);
  free(floats);
  return status;
}

yk_status yk_adapted_set(const yk_adapted *adapted, yk_device *dev, yk_model_family family, const yk_adapter *adapter,
                         int32_t number, yk_err *err)
{
  yk_status status = YK_OK;
  for (size_t i = 0; i < adapted->n && status == YK_OK; i++)
    status = set_layer(&adapted->layers[i], dev, family, adapter, number, err);
  return yk_adapter_settle(adapter, status, err);
}
