/* layer_input.c - the sublayer after the FFN that adds the layer's embeddings (layer_inputs.h) to the residual x:
 *
 *   x += norm(y)     y = down(f(gate(x)) * embeddings)
 *
 * gate reads x without a norm. This file computes y; model.c adds it. gate is column-parallel and down row-parallel,
 * over the elements of the embeddings that the rank has. */
#include <stdlib.h>

#include "base/checked.h"
#include "model/layer_inputs.h"
#include "model/row_parallel.h"

struct yk_sublayer {
  yk_linear *gate;
  yk_row_parallel down;
  int32_t width;
  int64_t first; /* the layer's first element in a row of yk_layer_inputs.rows */
  int64_t down_offset_bytes;
};

typedef struct projections {
  yk_linear_spec gate, down;
} projections;

static yk_status specify(const yk_rank_source *source, int32_t layer, projections *out, yk_err *err)
{
  const yk_range elements = source->share.layer_input;
  const yk_projection gate = {.layer = layer, .role = YK_ROLE_INPUT_GATE};
  const yk_projection down = {.layer = layer, .role = YK_ROLE_INPUT_DOWN};
  const yk_linear_spec plain = {.n_parts = 1, .n_matrices = 1, .max_tokens = source->limits->step.max_tokens};
  *out = (projections){plain, plain};
  out->gate.activation = source->config->activation;
  out->gate.activation.is_gated = false;
  YK_TRY(yk_rank_column_part(source, &gate, elements, &out->gate.parts[0], err));
  return yk_rank_row_part(source, &down, elements, false, &out->down.parts[0], err);
}

static int64_t down_offset_bytes(const yk_rank_source *source)
{
  const int64_t row_bytes = yk_range_size(source->share.layer_input) * (int64_t)yk_dtype_bytes(source->dev.dtype);
  return yk_round_up_i64(source->limits->step.max_tokens * row_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  *out = (yk_sublayer_bytes){.weights = yk_repack_bytes(dev, &p.gate) + yk_repack_bytes(dev, &p.down),
                             .n_unkept = yk_repack_n_unkept(dev, &p.gate) + yk_repack_n_unkept(dev, &p.down),
                             .n_float_inputs =
                                 yk_repack_n_float_inputs(dev, &p.gate) + yk_repack_n_float_inputs(dev, &p.down),
                             .scratch = down_offset_bytes(source) + yk_row_parallel_scratch(source, &p.down)};
  return YK_OK;
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  yk_sublayer *input = *out = calloc(1, sizeof *input);
  if (!input) return yk_err_set(err, YK_E_NOMEM, "no memory for the embeddings of a layer");
  input->width = (int32_t)yk_range_size(source->share.layer_input);
  input->first = (layer - source->share.layers.begin) * input->width;
  input->down_offset_bytes = down_offset_bytes(source);
  YK_TRY(yk_rank_load_linear(loader, &p.gate, &input->gate, err));
  return yk_row_parallel_load(loader, &p.down, &input->down, err);
}

static yk_status forward(const yk_sublayer *input, yk_sublayer_step *s, yk_err *err)
{
  const int32_t n = s->batch->n_tokens;
  const yk_layer_inputs *inputs = s->layer_inputs;
  YK_TRY(yk_sublayer_normalise(s, err));
  const yk_linear_args to_inner = {.x = s->x.residual, .y = s->scratch, .n_tokens = n, .y_stride = input->width};
  const char *embeddings = inputs->rows;
  const yk_multiply_args product = {
      .x = s->scratch,
      .factors = embeddings ? embeddings + (size_t)input->first * yk_dtype_bytes(s->dev->dtype) : NULL,
      .stride = (int64_t)inputs->n_layers * input->width,
      .n_rows = n,
      .width = input->width};
  yk_row_parallel_args to_y = {
      .x = s->scratch, .y = s->y.rows, .scratch = (char *)s->scratch + input->down_offset_bytes};
  YK_RUN(s->operations, GEMM_GATE_UP, s->layer, "per_layer_input_gate",
         s->dev->ops->linear_forward(s->dev, input->gate, &to_inner, err));
  YK_RUN(s->operations, OTHER, s->layer, "product with embeddings", s->dev->ops->multiply(s->dev, &product, err));
  return yk_row_parallel_run(&input->down, s, &to_y, YK_OPERATION_GEMM_DOWN, "per_layer_projection", err);
}

static void destroy(yk_device *dev, yk_sublayer *input)
{
  dev->ops->linear_destroy(dev, input->gate);
  dev->ops->linear_destroy(dev, input->down.linear);
  free(input);
}

const yk_sublayer_kind yk_layer_input = {
    .name = "embeddings of the layer", .measure = measure, .load = load, .forward = forward, .destroy = destroy};
