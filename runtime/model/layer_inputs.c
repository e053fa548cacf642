#include "model/layer_inputs.h"

#include <math.h>

#include "base/checked.h"
#include "kernels/cpu/cpu_simd.h"

static yk_status specify(const yk_rank_source *source, yk_linear_spec *out, yk_err *err)
{
  const yk_projection projection = {.role = YK_ROLE_LAYER_INPUTS};
  const yk_range outputs = yk_range_scaled(source->share.layers, source->config->layer_input_size);
  *out = (yk_linear_spec){.n_parts = 1, .n_matrices = 1, .max_tokens = source->limits->step.max_tokens};
  return yk_rank_column_part(source, &projection, outputs, &out->parts[0], err);
}

/* Bytes of [max_tokens, layers of the stage, size] in act. */
static int64_t rows_bytes(const yk_rank_source *source, int64_t size)
{
  const int64_t n = source->limits->step.max_tokens * yk_range_size(source->share.layers) * size;
  return n * (int64_t)yk_dtype_bytes(source->dev.dtype);
}

static int64_t embedded_bytes(const yk_rank_source *source)
{
  const int64_t n = source->limits->step.max_tokens * (int64_t)source->config->hidden_size;
  return source->share.is_first_stage ? 0 : n * (int64_t)yk_dtype_bytes(source->dev.dtype);
}

yk_status yk_layer_inputs_measure(const yk_rank_source *source, yk_sublayer_bytes *out, yk_err *err)
{
  const int64_t size = source->config->layer_input_size, width = yk_range_size(source->share.layer_input);
  const int64_t n_rows = source->config->vocab_size, n_layers = yk_range_size(source->share.layers);
  yk_linear_spec projection;
  *out = (yk_sublayer_bytes){0};
  if (size == 0) return YK_OK;
  YK_TRY(specify(source, &projection, err));
  out->weights = yk_repack_bytes(&source->dev, &projection) +
                 (size + n_rows * n_layers * width) * (int64_t)yk_dtype_bytes(source->dev.dtype);
  out->n_unkept = yk_repack_n_unkept(&source->dev, &projection);
  out->n_float_inputs = yk_repack_n_float_inputs(&source->dev, &projection);
  out->scratch = rows_bytes(source, size) + rows_bytes(source, width) + embedded_bytes(source);
  return YK_OK;
}

static float rounded(yk_dtype dtype, float number)
{
  uint32_t stored = 0;
  yk_cpu_simd_best()->from_f32(&stored, dtype, &number, 1);
  return yk_dtype_load(dtype, &stored, 0);
}

yk_status yk_layer_inputs_load(const yk_rank_loader *loader, yk_layer_inputs *out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_range *input = &source->share.layer_input;
  yk_linear_spec projection;
  out->size = source->config->layer_input_size;
  if (out->size == 0) return YK_OK;
  out->n_layers = (int32_t)yk_range_size(source->share.layers);
  out->first = (int32_t)input->begin;
  out->width = (int32_t)yk_range_size(*input);
  out->projected_scale = 1.0f / sqrtf((float)source->config->hidden_size);
  out->embed_scale = rounded(loader->dev->dtype, sqrtf((float)out->size));
  YK_TRY(specify(source, &projection, err));
  YK_TRY(yk_rank_load_linear(loader, &projection, &out->projection, err));
  YK_TRY(yk_rank_load_vector(loader, YK_ROLE_LAYER_INPUTS_NORM, 0, out->size, 1, &out->norm_w, err));
  YK_TRY(yk_rank_load_layer_embedding(loader, &out->table, err));
  YK_TRY(yk_rank_alloc(loader, (size_t)rows_bytes(source, out->size), &out->projected, err));
  YK_TRY(yk_rank_alloc(loader, (size_t)rows_bytes(source, out->width), &out->rows, err));
  return yk_rank_alloc(loader, (size_t)embedded_bytes(source), &out->embedded, err);
}

void yk_layer_inputs_destroy(yk_device *dev, yk_layer_inputs *inputs)
{
  if (inputs->projection) dev->ops->linear_destroy(dev, inputs->projection);
  dev->ops->free(dev, inputs->norm_w);
  dev->ops->free(dev, inputs->table);
  dev->ops->free(dev, inputs->projected);
  dev->ops->free(dev, inputs->rows);
  dev->ops->free(dev, inputs->embedded);
}

yk_status yk_layer_inputs_run(const yk_layer_inputs *in, const yk_sublayer_step *s, const void *embedded, yk_err *err)
{
  const yk_linear_args project = {
      .x = embedded, .y = in->projected, .n_tokens = s->batch->n_tokens, .y_stride = (int64_t)in->n_layers * in->size};
  const yk_layer_inputs_args args = {.y = in->rows,
                                     .projected = in->projected,
                                     .norm_w = in->norm_w,
                                     .table = in->table,
                                     .token_ids = s->batch->token_ids,
                                     .n_tokens = s->batch->n_tokens,
                                     .n_layers = in->n_layers,
                                     .size = in->size,
                                     .first = in->first,
                                     .width = in->width,
                                     .projected_scale = in->projected_scale,
                                     .embed_scale = in->embed_scale,
                                     .eps = s->norm_eps};
  if (in->width == 0) return YK_OK;
  YK_RUN(s->operations, OTHER, s->layer, "projection to embeddings of layers",
         s->dev->ops->linear_forward(s->dev, in->projection, &project, err));
  YK_RUN(s->operations, OTHER, s->layer, "embeddings of layers", s->dev->ops->layer_inputs(s->dev, &args, err));
  return YK_OK;
}
