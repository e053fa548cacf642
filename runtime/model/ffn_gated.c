#include "model/ffn_gated.h"

#include <stdlib.h>

#include "base/checked.h"
#include "loader/integers/group_order.h"
#include "model/invariance.h"

typedef struct projections {
  yk_linear_spec gate_up, down;
} projections;

static yk_status specify(const yk_rank_source *source, const yk_gated_ffn_spec *spec, projections *out, yk_err *err)
{
  const yk_projection gate = {.layer = spec->layer, .role = spec->gate}, up = {.layer = spec->layer, .role = spec->up};
  const yk_projection down = {.layer = spec->layer, .role = spec->down};
  const yk_activation activation = source->config->activation;
  const int n_parts = yk_ffn_n_inner(&activation);
  *out = (projections){.gate_up = yk_rank_layer_spec(source, n_parts), .down = yk_rank_layer_spec(source, 1)};
  out->gate_up.activation = activation;
  if (!yk_adapter_can_change(spec->up)) out->gate_up.n_adapters = out->down.n_adapters = 0;
  if (activation.is_gated) YK_TRY(yk_rank_column_part(source, &gate, spec->channels, &out->gate_up.parts[0], err));
  YK_TRY(yk_rank_column_part(source, &up, spec->channels, &out->gate_up.parts[n_parts - 1], err));
  YK_TRY(yk_invariance_column(source, &out->gate_up, err));
  YK_TRY(yk_rank_row_part(source, &down, spec->channels, true, &out->down.parts[0], err));
  return yk_invariance_row(source, &out->down, err);
}

static int64_t down_offset_bytes(const yk_rank_source *source, const yk_gated_ffn_spec *spec)
{
  int64_t row_bytes = yk_range_size(spec->channels) * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

yk_status yk_gated_ffn_measure(const yk_rank_source *source, const yk_gated_ffn_spec *spec, yk_sublayer_bytes *out,
                               yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  projections p;
  YK_TRY(specify(source, spec, &p, err));
  out->weights += yk_repack_bytes(dev, &p.gate_up) + yk_repack_bytes(dev, &p.down);
  out->shared = yk_max_i64(out->shared, yk_repack_shared_bytes(dev, &p.gate_up));
  out->shared = yk_max_i64(out->shared, yk_repack_shared_bytes(dev, &p.down));
  out->n_unkept += yk_repack_n_unkept(dev, &p.gate_up) + yk_repack_n_unkept(dev, &p.down);
  out->n_float_inputs += yk_repack_n_float_inputs(dev, &p.gate_up) + yk_repack_n_float_inputs(dev, &p.down);
  out->scratch += down_offset_bytes(source, spec) + yk_row_parallel_scratch(source, &p.down);
  return YK_OK;
}

yk_status yk_gated_ffn_in_steps(const yk_rank_source *source, const yk_gated_ffn_spec *spec, bool *out, yk_err *err)
{
  projections p;
  YK_TRY(specify(source, spec, &p, err));
  *out = yk_row_parallel_in_steps(source, &p.down);
  return YK_OK;
}

yk_status yk_gated_order_channels(yk_linear_spec *gate_up, const yk_linear_spec *down, int32_t **order, yk_err *err)
{
  const yk_linear_part *part = &down->parts[0];
  int64_t width = yk_range_size(part->k), n_channels = down->n_matrices * width;
  const yk_group_share share = {part->k.begin, part->k.end, true};
  const yk_group_places unpadded = {.n = width, .group = 1};
  *order = NULL;
  if (!part->k_is_sorted) return YK_OK;
  int32_t *channels = *order = calloc((size_t)(gate_up->n_parts * n_channels), sizeof **order);
  if (!channels) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld channels", (long long)n_channels);
  for (int32_t m = 0; m < down->n_matrices; m++) {
    const yk_linear_part of_matrix = yk_linear_part_of(part, m);
    YK_TRY(yk_group_order_fill(&of_matrix.weight, &share, &unpadded, channels + m * width, NULL, err));
  }
  for (int i = gate_up->n_parts - 1; i >= 0; i--) {
    int64_t first = gate_up->parts[i].n.begin - part->k.begin; /* index of channel 0 among the weight's outputs */
    int32_t *outputs = channels + i * n_channels;
    for (int64_t j = 0; j < n_channels; j++) outputs[j] = (int32_t)(channels[j] + first);
    gate_up->parts[i].n_order = outputs;
  }
  return YK_OK;
}

/* *out: the channel of each of the rank's inputs of down, in the order of the first part's outputs; NULL: the channels
 * are down's k. The caller frees *out. */
static yk_status channels_of(const projections *p, int32_t **out, yk_err *err)
{
  const yk_linear_part *gate = &p->gate_up.parts[0], *down = &p->down.parts[0];
  const int64_t n = yk_range_size(down->k);
  *out = NULL;
  if (!gate->n_order) return YK_OK;
  *out = malloc((size_t)(n + 1) * sizeof **out);
  if (!*out) return yk_err_set(err, YK_E_NOMEM, "no memory for the order of %lld channels", (long long)n);
  for (int64_t i = 0; i < n; i++) (*out)[i] = (int32_t)(gate->n_order[i] - gate->n.begin + down->k.begin);
  return YK_OK;
}

static yk_status add_adapted(const yk_rank_loader *loader, const yk_gated_ffn_spec *spec, const projections *p,
                             const yk_gated_ffn *ffn, yk_err *err)
{
  const bool is_gated = p->gate_up.activation.is_gated;
  const yk_weight_role gate_up[] = {is_gated ? spec->gate : spec->up, spec->up};
  int32_t *channels;
  YK_TRY(channels_of(p, &channels, err));
  const yk_adapted_place of_gate_up = {.layer = spec->layer, .roles = gate_up};
  const yk_adapted_place of_down = {.layer = spec->layer, .roles = &spec->down, .columns = channels};
  yk_status status = yk_adapted_add(loader->adapted, &of_gate_up, &p->gate_up, ffn->gate_up, err);
  if (status == YK_OK) status = yk_adapted_add(loader->adapted, &of_down, &p->down, ffn->down.linear, err);
  free(channels);
  return status;
}

static yk_status load_linears(const yk_rank_loader *loader, const yk_gated_ffn_spec *spec, projections *p,
                              yk_gated_ffn *out, yk_err *err)
{
  int32_t *order = NULL;
  yk_status status = yk_gated_order_channels(&p->gate_up, &p->down, &order, err);
  if (status == YK_OK) status = yk_rank_load_linear(loader, &p->gate_up, &out->gate_up, err);
  if (status == YK_OK) status = yk_row_parallel_load(loader, &p->down, &out->down, err);
  if (status == YK_OK && p->down.n_adapters > 0) status = add_adapted(loader, spec, p, out, err);
  free(order);
  return status;
}

yk_status yk_gated_ffn_load(const yk_rank_loader *loader, const yk_gated_ffn_spec *spec, yk_gated_ffn *out, yk_err *err)
{
  projections p;
  YK_TRY(specify(&loader->source, spec, &p, err));
  out->is_gated = p.gate_up.activation.is_gated;
  out->width = (int32_t)yk_range_size(spec->channels);
  out->down_offset_bytes = down_offset_bytes(&loader->source, spec);
  return load_linears(loader, spec, &p, out, err);
}

yk_status yk_gated_ffn_forward(const yk_gated_ffn *ffn, yk_sublayer_step *s, void *scratch, yk_err *err)
{
  int32_t n = s->batch->n_tokens;
  yk_linear_args to_inner = {
      .x = s->x.rows, .y = scratch, .n_tokens = n, .y_stride = ffn->width, .adapters = s->batch->adapters};
  yk_row_parallel_args to_y = {.x = scratch, .y = s->y.rows, .scratch = (char *)scratch + ffn->down_offset_bytes};
  YK_TRY(yk_sublayer_normalise_for(s, ffn->gate_up, &to_inner, err));
  YK_RUN(s->operations, GEMM_GATE_UP, s->layer, "gate_up_proj",
         s->dev->ops->linear_forward(s->dev, ffn->gate_up, &to_inner, err));
  return yk_row_parallel_run(&ffn->down, s, &to_y, YK_OPERATION_GEMM_DOWN, "down_proj", err);
}

bool yk_gated_ffn_describe(const yk_gated_ffn *ffn, yk_decode_layer *layer)
{
  layer->gate_up = ffn->gate_up;
  layer->down = ffn->down.linear;
  return ffn->is_gated && !ffn->down.in_steps && !ffn->down.in_tree;
}

void yk_gated_ffn_destroy(yk_device *dev, yk_gated_ffn *ffn)
{
  dev->ops->linear_destroy(dev, ffn->gate_up);
  dev->ops->linear_destroy(dev, ffn->down.linear);
}
