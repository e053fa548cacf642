/* attention_mamba.c - Mamba2 in the place of attention (kernels/mamba.h): y = out_proj(mamba(in_proj(x))).
 *
 * A rank owns whole groups with all their heads, so that the norm of a group needs no other rank; a rank beyond the
 * number of groups owns none. in_proj is column-parallel, out_proj row-parallel. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/dtype.h"
#include "model/layer.h"
#include "model/recurrent_states.h"
#include "model/row_parallel.h"

struct yk_sublayer {
  yk_mamba_layout layout;
  yk_linear *in;
  yk_row_parallel out;
  float *conv_w, *conv_bias, *rate, *dt_bias, *skip, *norm_w; /* conv_bias may be NULL */
  float min_step, max_step;
  yk_recurrent_states states;
  /* Offsets within the scratch, which begins with the rows of in_proj: of the scratch of the operation mamba, its
   * results, and the scratch of out. */
  int64_t inner_offset_bytes, results_offset_bytes, out_offset_bytes;
};

typedef struct projections {
  yk_linear_spec in, out;
} projections;

static yk_range shifted(yk_range range, int64_t by)
{
  return (yk_range){range.begin + by, range.end + by};
}

static yk_range heads_of(const yk_rank_source *source)
{
  const yk_mamba_config *mamba = &source->config->mamba;
  return yk_range_scaled(source->share.mamba_groups, mamba->n_heads / mamba->n_groups);
}

static yk_mamba_layout layout_of(const yk_rank_source *source)
{
  const yk_mamba_config *mamba = &source->config->mamba;
  return (yk_mamba_layout){.n_groups = (int32_t)yk_range_size(source->share.mamba_groups),
                           .heads_per_group = mamba->n_heads / mamba->n_groups,
                           .head_dim = mamba->head_dim,
                           .state_size = mamba->state_size};
}

enum { PART_Z, PART_X, PART_B, PART_C, PART_DT, N_PARTS, N_CONVOLVED = 3 };

/* The rank's outputs of in_proj, in the order of the columns of yk_mamba_args.x. */
static void find_parts(const yk_rank_source *source, yk_range parts[N_PARTS])
{
  const yk_mamba_config *mamba = &source->config->mamba;
  const int64_t width = yk_mamba_config_width(mamba), states = (int64_t)mamba->n_groups * mamba->state_size;
  const yk_range heads = heads_of(source), channels = yk_range_scaled(heads, mamba->head_dim);
  const yk_range of_states = yk_range_scaled(source->share.mamba_groups, mamba->state_size);
  parts[PART_Z] = channels;
  parts[PART_X] = shifted(channels, width);
  parts[PART_B] = shifted(of_states, 2 * width);
  parts[PART_C] = shifted(of_states, 2 * width + states);
  parts[PART_DT] = shifted(heads, 2 * width + 2 * states);
}

/* Devices cut 4-bit weights at whole words only. Parts with other ranges, such as dt with one output per head, are
 * converted to 16-bit floats. */
static yk_status specify(const yk_rank_source *source, int32_t layer, projections *out, yk_err *err)
{
  enum { WORD_OUTPUTS = 8 };
  const yk_projection in_proj = {layer, YK_ROLE_MAMBA_IN, 0}, out_proj = {layer, YK_ROLE_MAMBA_OUT, 0};
  yk_range parts[N_PARTS];
  *out = (projections){.in = yk_rank_layer_spec(source, N_PARTS), .out = yk_rank_layer_spec(source, 1)};
  find_parts(source, parts);
  for (int i = 0; i < N_PARTS; i++) {
    yk_linear_part *part = &out->in.parts[i];
    YK_TRY(yk_rank_column_part(source, &in_proj, parts[i], part, err));
    if (part->weight.format == YK_WEIGHT_AWQ &&
        (parts[i].begin % WORD_OUTPUTS != 0 || parts[i].end % WORD_OUTPUTS != 0))
      part->as_16_bits = true;
  }
  return yk_rank_row_part(source, &out_proj, parts[PART_Z], false, &out->out.parts[0], err);
}

/* ---- Memory ------------------------------------------------------------------------------------------------------ */

static int64_t rows_bytes(const yk_rank_source *source, int64_t width, yk_dtype dtype)
{
  int64_t n_bytes = source->limits->step.max_tokens * width * (int64_t)yk_dtype_bytes(dtype);
  return yk_round_up_i64(n_bytes, YK_DEVICE_ALIGNMENT_BYTES);
}

static void set_offsets(const yk_rank_source *source, yk_sublayer *a)
{
  const yk_dtype dtype = source->dev.dtype;
  a->inner_offset_bytes = rows_bytes(source, yk_mamba_x_stride(&a->layout), dtype);
  a->results_offset_bytes = a->inner_offset_bytes + rows_bytes(source, yk_mamba_scratch_floats(&a->layout), YK_F32);
  a->out_offset_bytes = a->results_offset_bytes + rows_bytes(source, yk_mamba_width(&a->layout), dtype);
}

static int64_t state_bytes(const yk_mamba_layout *layout)
{
  return yk_mamba_state_floats(layout) * (int64_t)sizeof(float);
}

static yk_status measure(const yk_rank_source *source, int32_t layer, yk_sublayer_bytes *out, yk_err *err)
{
  const yk_model_device *dev = &source->dev;
  yk_sublayer sizes = {.layout = layout_of(source)};
  const yk_mamba_layout *layout = &sizes.layout;
  const int64_t n_taps = YK_MAMBA_TAPS + source->config->mamba.has_conv_bias;
  const int64_t n_floats = n_taps * yk_mamba_channels(layout) + 3 * yk_mamba_n_heads(layout) + yk_mamba_width(layout);
  projections p;
  set_offsets(source, &sizes);
  YK_TRY(specify(source, layer, &p, err));
  *out = (yk_sublayer_bytes){
      .weights = n_floats * (int64_t)sizeof(float) + yk_repack_bytes(dev, &p.in) + yk_repack_bytes(dev, &p.out),
      .n_unkept = yk_repack_n_unkept(dev, &p.in) + yk_repack_n_unkept(dev, &p.out),
      .n_float_inputs = yk_repack_n_float_inputs(dev, &p.in) + yk_repack_n_float_inputs(dev, &p.out),
      .state_per_seq = state_bytes(layout),
      .scratch = sizes.out_offset_bytes + yk_row_parallel_scratch(source, &p.out)};
  return YK_OK;
}

/* ---- Loading ----------------------------------------------------------------------------------------------------- */

/* Element i of a view, which may be unaligned. */
static float element(const yk_vector_view *view, int64_t i)
{
  uint32_t bits = 0;
  size_t n_bytes = yk_dtype_bytes(view->dtype);
  memcpy(&bits, (const char *)view->data + (size_t)i * n_bytes, n_bytes);
  return yk_dtype_load(view->dtype, &bits, 0);
}

/* Uploads the ranges of a vector [elements, n_steps] transposed, to `to` float32 [n_steps, elements of all ranges].
 * is_log: the checkpoint has logarithms, and their exponentials are uploaded. */
static yk_status load_ranges(const yk_rank_loader *loader, const yk_vector_view *view, const yk_range *ranges,
                             int n_ranges, int n_steps, bool is_log, float **to, yk_err *err)
{
  int64_t n = 0, at = 0;
  for (int i = 0; i < n_ranges; i++) n += yk_range_size(ranges[i]);
  float *floats = calloc((size_t)(n_steps * n + 1), sizeof *floats);
  if (!floats) return yk_err_set(err, YK_E_NOMEM, "no memory for %lld numbers of Mamba2", (long long)(n_steps * n));
  for (int i = 0; i < n_ranges; i++)
    for (int64_t from = ranges[i].begin; from < ranges[i].end; from++, at++)
      for (int t = 0; t < n_steps; t++) {
        const float number = element(view, from * n_steps + t);
        floats[t * n + at] = is_log ? expf(number) : number;
      }
  yk_status status = yk_rank_upload_floats(loader, floats, n_steps * n, to, err);
  free(floats);
  return status;
}

static yk_status load_convolution(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  const yk_mamba_config *mamba = &source->config->mamba;
  const int64_t n = yk_mamba_config_channels(mamba), width = yk_mamba_config_width(mamba);
  yk_range parts[N_PARTS];
  yk_vector_view view;
  find_parts(source, parts);
  for (int i = 0; i < N_CONVOLVED; i++) parts[i] = shifted(parts[PART_X + i], -width);
  YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_MAMBA_CONV, layer, YK_MAMBA_TAPS * n, &view, err));
  YK_TRY(load_ranges(loader, &view, parts, N_CONVOLVED, YK_MAMBA_TAPS, false, &a->conv_w, err));
  if (!mamba->has_conv_bias) return YK_OK;
  YK_TRY(yk_checkpoint_vector(source->checkpoint, YK_ROLE_MAMBA_CONV_BIAS, layer, n, &view, err));
  return load_ranges(loader, &view, parts, N_CONVOLVED, 1, false, &a->conv_bias, err);
}

/* The vectors with an element per head, and the weights of the norm: the rank's share of each. */
static yk_status load_vectors(const yk_rank_loader *loader, int32_t layer, yk_sublayer *a, yk_err *err)
{
  const yk_mamba_config *mamba = &loader->source.config->mamba;
  const yk_range heads = heads_of(&loader->source), channels = yk_range_scaled(heads, mamba->head_dim);
  const struct {
    yk_weight_role role;
    int64_t n;
    yk_range range;
    float **to;
  } vectors[] = {{YK_ROLE_MAMBA_A_LOG, mamba->n_heads, heads, &a->rate},
                 {YK_ROLE_MAMBA_DT_BIAS, mamba->n_heads, heads, &a->dt_bias},
                 {YK_ROLE_MAMBA_SKIP, mamba->n_heads, heads, &a->skip},
                 {YK_ROLE_MAMBA_NORM, yk_mamba_config_width(mamba), channels, &a->norm_w}};
  for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
    yk_vector_view view;
    YK_TRY(yk_checkpoint_vector(loader->source.checkpoint, vectors[i].role, layer, vectors[i].n, &view, err));
    YK_TRY(load_ranges(loader, &view, &vectors[i].range, 1, 1, vectors[i].role == YK_ROLE_MAMBA_A_LOG, vectors[i].to,
                       err));
  }
  return YK_OK;
}

static yk_status load_projections(const yk_rank_loader *loader, int32_t layer, const projections *p, yk_sublayer *a,
                                  yk_err *err)
{
  static const yk_weight_role of_in[] = {YK_ROLE_MAMBA_IN, YK_ROLE_MAMBA_IN, YK_ROLE_MAMBA_IN, YK_ROLE_MAMBA_IN,
                                         YK_ROLE_MAMBA_IN};
  static const yk_weight_role of_out = YK_ROLE_MAMBA_OUT;
  const yk_adapted_place in = {.layer = layer, .roles = of_in}, out = {.layer = layer, .roles = &of_out};
  YK_TRY(yk_rank_load_linear(loader, &p->in, &a->in, err));
  YK_TRY(yk_adapted_add(loader->adapted, &in, &p->in, a->in, err));
  YK_TRY(yk_row_parallel_load(loader, &p->out, &a->out, err));
  return yk_adapted_add(loader->adapted, &out, &p->out, a->out.linear, err);
}

static yk_status load(const yk_rank_loader *loader, int32_t layer, yk_sublayer **out, yk_err *err)
{
  const yk_rank_source *source = &loader->source;
  projections p;
  YK_TRY(specify(source, layer, &p, err));
  yk_sublayer *a = *out = calloc(1, sizeof *a);
  if (!a) return yk_err_set(err, YK_E_NOMEM, "no memory for a layer of Mamba2");
  a->layout = layout_of(source);
  a->min_step = source->config->mamba.min_step;
  a->max_step = source->config->mamba.max_step;
  set_offsets(source, a);
  YK_TRY(load_convolution(loader, layer, a, err));
  YK_TRY(load_vectors(loader, layer, a, err));
  YK_TRY(load_projections(loader, layer, &p, a, err));
  return yk_recurrent_states_load(loader, state_bytes(&a->layout), &a->states, err);
}

/* ---- Forward ----------------------------------------------------------------------------------------------------- */

static yk_status run_heads(const yk_sublayer *a, const yk_sublayer_step *s, yk_err *err)
{
  char *scratch = s->scratch;
  const yk_mamba_args args = {.y = scratch + a->results_offset_bytes,
                              .x = scratch,
                              .scratch = (float *)(void *)(scratch + a->inner_offset_bytes),
                              .layout = a->layout,
                              .conv_w = a->conv_w,
                              .conv_bias = a->conv_bias,
                              .rate = a->rate,
                              .dt_bias = a->dt_bias,
                              .skip = a->skip,
                              .norm_w = a->norm_w,
                              .min_step = a->min_step,
                              .max_step = a->max_step,
                              .norm_eps = s->norm_eps,
                              .states = a->states.states,
                              .snapshots = a->states.snapshots,
                              .batch = s->batch};
  return a->layout.n_groups == 0 ? YK_OK : s->dev->ops->mamba(s->dev, &args, err);
}

static yk_status forward(const yk_sublayer *a, yk_sublayer_step *s, yk_err *err)
{
  YK_TRY(yk_sublayer_normalise(s, err));
  char *scratch = s->scratch;
  yk_linear_args to_x = {.x = s->x.rows,
                         .y = scratch,
                         .n_tokens = s->batch->n_tokens,
                         .y_stride = yk_mamba_x_stride(&a->layout),
                         .adapters = s->batch->adapters};
  yk_row_parallel_args to_y = {
      .x = scratch + a->results_offset_bytes, .y = s->y.rows, .scratch = scratch + a->out_offset_bytes};
  YK_RUN(s->operations, GEMM_QKV, s->layer, "in_proj", s->dev->ops->linear_forward(s->dev, a->in, &to_x, err));
  YK_RUN(s->operations, STATES, s->layer, "Mamba2", run_heads(a, s, err));
  return yk_row_parallel_run(&a->out, s, &to_y, YK_OPERATION_GEMM_O, "out_proj", err);
}

static yk_status copy(const yk_sublayer *a, yk_device *dev, const yk_step_copy *c, yk_err *err)
{
  return yk_recurrent_states_copy(&a->states, dev, c, err);
}

static void destroy(yk_device *dev, yk_sublayer *a)
{
  dev->ops->linear_destroy(dev, a->in);
  dev->ops->linear_destroy(dev, a->out.linear);
  void *const memory[] = {a->conv_w, a->conv_bias, a->rate, a->dt_bias, a->skip, a->norm_w};
  for (size_t i = 0; i < sizeof memory / sizeof *memory; i++) dev->ops->free(dev, memory[i]);
  yk_recurrent_states_free(&a->states, dev);
  free(a);
}

const yk_sublayer_kind yk_attention_mamba = {
    .name = "Mamba2", .measure = measure, .load = load, .forward = forward, .copy = copy, .destroy = destroy};
