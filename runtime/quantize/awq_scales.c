#include "quantize/awq_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/device.h"
#include "quantize/calibration.h"

enum { GRID = 20, SLICE_OUTPUTS = 1024, MAX_READERS = 3, NO_ROLE = -1 };

/* The scales of the inputs that a layer's linear layers of a kind share. */
typedef struct fold {
  bool is_known;
  float *scales;   /* [k], or NULL: none */
  float *inverses; /* [k] */
  void *norm;      /* the norm that writes the inputs, divided; NULL where a linear layer does */
} fold;

struct yk_awq_scales {
  const yk_quantize_run *run;
  yk_checkpoint *checkpoint;
  const yk_model_config *config;
  yk_calibration calibration;
  fold *folds;    /* [n_layers, YK_N_INPUT_KINDS] */
  yk_device *dev; /* that multiplies sampled rows with errors */
  yk_quantize_buffer errors, outputs, limits, grams, bias;
};

/* Who reads the inputs of a kind, and who writes them. */
typedef struct kind_roles {
  int n_readers;
  yk_weight_role readers[MAX_READERS];
  yk_weight_role writer;
  bool writer_is_norm;
} kind_roles;

static const kind_roles roles_of[YK_N_INPUT_KINDS] = {
    [YK_INPUT_QKV] = {3, {YK_ROLE_Q, YK_ROLE_K, YK_ROLE_V}, YK_ROLE_ATTENTION_NORM, true},
    [YK_INPUT_O] = {1, {YK_ROLE_O}, YK_ROLE_V, false},
    [YK_INPUT_GATE_UP] = {2, {YK_ROLE_GATE, YK_ROLE_UP}, YK_ROLE_FFN_NORM, true},
    [YK_INPUT_DOWN] = {1, {YK_ROLE_DOWN}, YK_ROLE_UP, false},
};

/* ---- Layers by name ---------------------------------------------------------------------------------------------- */

/* The role of a module within its layer, or NO_ROLE. */
static int role_of(const yk_awq_scales *s, const char *module, int32_t *layer)
{
  char name[YK_WEIGHT_NAME_BYTES];
  *layer = yk_weight_layer(s->config->family, module);
  if (*layer < 0 || *layer >= s->config->n_layers) return NO_ROLE;
  for (int role = YK_ROLE_ATTENTION_NORM; role <= YK_ROLE_DOWN; role++) {
    yk_weight_name(s->config->family, (yk_weight_role)role, *layer, name);
    if (strcmp(name, module) == 0) return role;
  }
  return NO_ROLE;
}

/* The kind of inputs that a linear layer reads. */
static yk_input_kind kind_read_by(yk_weight_role role)
{
  for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++)
    for (int i = 0; i < roles_of[kind].n_readers; i++)
      if (roles_of[kind].readers[i] == role) return (yk_input_kind)kind;
  return YK_N_INPUT_KINDS;
}

/* The kind of inputs that a module writes, or YK_N_INPUT_KINDS. */
static yk_input_kind kind_written_by(int role)
{
  for (int kind = 0; kind < YK_N_INPUT_KINDS; kind++)
    if ((int)roles_of[kind].writer == role) return (yk_input_kind)kind;
  return YK_N_INPUT_KINDS;
}

static bool is_quantised(const yk_awq_scales *s, yk_weight_role role, int32_t layer)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(s->config->family, role, layer, name);
  return yk_quantize_plan_has(&s->run->plan, name);
}

static bool can_fold(const yk_awq_scales *s, yk_input_kind kind, int32_t layer)
{
  const kind_roles *roles = &roles_of[kind];
  if (kind == YK_INPUT_O && s->config->n_heads != s->config->n_kv_heads) return false;
  if (!roles->writer_is_norm && !is_quantised(s, roles->writer, layer)) return false;
  for (int i = 0; i < roles->n_readers; i++)
    if (!is_quantised(s, roles->readers[i], layer)) return false;
  return true;
}

static yk_status floats_of(const yk_awq_scales *s, yk_weight_role role, int32_t layer, yk_awq_floats *out, yk_err *err)
{
  const yk_weight_module m = yk_weight_module_of(s->config, role);
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_view view;
  yk_weight_name(s->config->family, role, layer, name);
  YK_TRY(yk_checkpoint_linear(s->checkpoint, name, m.k, m.n, false, &view, err));
  *out = (yk_awq_floats){.w = view.plain,
                         .dtype = view.dtype,
                         .n = m.n,
                         .k = m.k,
                         .group = yk_quantize_group(s->run->plan.group_size, m.k)};
  return YK_OK;
}

/* ---- The loss of some scales ------------------------------------------------------------------------------------- */

/* Sum over sampled rows and the slice's outputs of the squared change of the output. */
static yk_status slice_loss(yk_awq_scales *s, const yk_calibrated_input *input, const yk_awq_floats *slice,
                            double *loss, yk_err *err)
{
  int32_t n_rows = input->n_rows;
  size_t n_outputs = (size_t)n_rows * (size_t)slice->n;
  YK_TRY(yk_quantize_reserve(&s->errors, (size_t)(slice->n * slice->k) * sizeof(float), err));
  YK_TRY(yk_quantize_reserve(&s->outputs, n_outputs * sizeof(float), err));
  YK_TRY(yk_awq_errors(s->run->pool, slice, s->errors.memory, err));
  yk_linear_spec spec = {.n_parts = 1, .n_matrices = 1, .max_tokens = n_rows};
  spec.parts[0] = (yk_linear_part){
      .weight = {.format = YK_WEIGHT_PLAIN, .k = slice->k, .n = slice->n, .dtype = YK_F32, .plain = s->errors.memory},
      .k = {0, slice->k},
      .n = {0, slice->n}};
  yk_linear_args args = {.x = input->rows, .y = s->outputs.memory, .n_tokens = n_rows, .y_stride = slice->n};
  yk_linear *linear;
  YK_TRY(s->dev->ops->linear_create(s->dev, &spec, &linear, err));
  yk_status status = s->dev->ops->linear_forward(s->dev, linear, &args, err);
  if (status == YK_OK) status = s->dev->ops->sync(s->dev, err);
  s->dev->ops->linear_destroy(s->dev, linear);
  YK_TRY(status);
  const float *y = s->outputs.memory;
  for (size_t i = 0; i < n_outputs; i++) *loss += (double)y[i] * (double)y[i];
  return YK_OK;
}

static yk_status loss_of(yk_awq_scales *s, yk_input_kind kind, int32_t layer, const float *scales, double *loss,
                         yk_err *err)
{
  const yk_calibrated_input *input = yk_calibrated_input_of(&s->calibration, layer, kind);
  *loss = 0;
  for (int i = 0; i < roles_of[kind].n_readers; i++) {
    yk_awq_floats weight;
    YK_TRY(floats_of(s, roles_of[kind].readers[i], layer, &weight, err));
    for (int64_t row = 0; row < weight.n; row += SLICE_OUTPUTS) {
      yk_awq_floats slice = weight;
      slice.w = (const char *)weight.w + row * weight.k * (int64_t)yk_dtype_bytes(weight.dtype);
      slice.n = yk_min_i64(SLICE_OUTPUTS, weight.n - row);
      slice.k_scales = scales;
      YK_TRY(slice_loss(s, input, &slice, loss, err));
    }
  }
  return yk_quantize_progress(s->run, "searching", s->run->done_bytes, s->run->plan.total_bytes, err);
}

/* ---- The search -------------------------------------------------------------------------------------------------- */

/* m^a, divided by the root of the product of its greatest and its least. */
static void power_scales(const yk_calibration *calibration, const yk_calibrated_input *input, double a, float *scales)
{
  double most = 0, least = INFINITY;
  for (int64_t i = 0; i < input->k; i++) {
    double scale = fmax(pow(input->sums[i] / calibration->n_tokens, a), 1e-4);
    most = fmax(most, scale);
    least = fmin(least, scale);
    scales[i] = (float)scale;
  }
  float middle = (float)sqrt(most * least);
  for (int64_t i = 0; i < input->k; i++) scales[i] /= middle;
}

/* The norm's elements divided by the scales, and the scales that this makes of them. norm [n] of the view's type. */
static void divide_norm(const yk_vector_view *view, float *scales, void *norm)
{
  memcpy(norm, view->data, (size_t)view->n * yk_dtype_bytes(view->dtype));
  for (int64_t i = 0; i < view->n; i++) {
    float before = yk_dtype_load(view->dtype, norm, (size_t)i);
    yk_dtype_store(view->dtype, norm, (size_t)i, before / scales[i]);
    float after = yk_dtype_load(view->dtype, norm, (size_t)i), ratio = before / after;
    bool is_sound = isfinite(ratio) && ratio > 0 && fabsf(ratio / scales[i] - 1) < 0.02f;
    scales[i] = is_sound ? ratio : 1; /* no such ratio: a norm of zero, or one that leaves its type's range */
    if (!is_sound) yk_dtype_store(view->dtype, norm, (size_t)i, before);
  }
}

static yk_status search(yk_awq_scales *s, yk_input_kind kind, int32_t layer, const yk_vector_view *norm, fold *out,
                        yk_err *err)
{
  const yk_calibrated_input *input = yk_calibrated_input_of(&s->calibration, layer, kind);
  double best_loss = INFINITY, best_power = 0;
  for (int i = 0; i <= GRID; i++) { /* the last time with the best power, to keep its scales */
    double power = i < GRID ? (double)i / GRID : best_power, loss;
    power_scales(&s->calibration, input, power, out->scales);
    if (norm) divide_norm(norm, out->scales, out->norm);
    if (i == GRID) break;
    YK_TRY(loss_of(s, kind, layer, out->scales, &loss, err));
    if (loss >= best_loss) continue;
    best_loss = loss;
    best_power = power;
  }
  for (int64_t i = 0; i < input->k; i++) out->inverses[i] = 1.0f / out->scales[i];
  yk_log_write(&s->run->options->log, YK_LOG_DEBUG, "layer %d, inputs %d: power %g, loss %g", (int)layer, (int)kind,
               best_power, best_loss);
  return YK_OK;
}

static void fold_free(fold *f)
{
  free(f->scales);
  free(f->inverses);
  free(f->norm);
  *f = (fold){0};
}

static yk_status make_fold(yk_awq_scales *s, yk_input_kind kind, int32_t layer, fold *out, yk_err *err)
{
  size_t k = (size_t)yk_calibrated_input_of(&s->calibration, layer, kind)->k;
  bool has_norm = roles_of[kind].writer_is_norm;
  yk_vector_view norm;
  if (has_norm) YK_TRY(yk_checkpoint_norm(s->checkpoint, roles_of[kind].writer, layer, (int64_t)k, &norm, err));
  out->scales = malloc(k * sizeof *out->scales);
  out->inverses = malloc(k * sizeof *out->inverses);
  out->norm = has_norm ? malloc(k * sizeof(float)) : NULL;
  if (!out->scales || !out->inverses || (has_norm && !out->norm))
    return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of a layer");
  return search(s, kind, layer, has_norm ? &norm : NULL, out, err);
}

/* Searched once, when it is first asked for. */
static yk_status fold_of(yk_awq_scales *s, yk_input_kind kind, int32_t layer, const fold **out, yk_err *err)
{
  fold *f = &s->folds[(size_t)layer * YK_N_INPUT_KINDS + (size_t)kind];
  *out = f;
  if (f->is_known) return YK_OK;
  yk_status status = can_fold(s, kind, layer) ? make_fold(s, kind, layer, f, err) : YK_OK;
  if (status != YK_OK) {
    fold_free(f);
    yk_err_prefix(err, "layer %d, scales", (int)layer);
  }
  f->is_known = status == YK_OK;
  return status;
}

/* ---- What others ask for ----------------------------------------------------------------------------------------- */

static yk_status find_limits(yk_awq_scales *s, const yk_calibrated_input *input, yk_awq_floats *weight, yk_err *err)
{
  if (weight->group > YK_AWQ_MAX_LIMITED_GROUP) return YK_OK;
  YK_TRY(yk_quantize_reserve(&s->grams, (size_t)(weight->k * weight->group) * sizeof(float), err));
  YK_TRY(yk_quantize_reserve(&s->limits, (size_t)(weight->n * (weight->k / weight->group)) * sizeof(float), err));
  yk_awq_grams(s->run->pool, input->rows, input->n_rows, weight->k, weight->group, weight->k_scales, s->grams.memory);
  YK_TRY(yk_awq_find_limits(s->run->pool, weight, s->grams.memory, s->limits.memory, err));
  weight->limits = s->limits.memory;
  return YK_OK;
}

yk_status yk_awq_scales_apply(yk_awq_scales *scales, const char *module, yk_awq_floats *weight, yk_err *err)
{
  int32_t layer;
  int role = role_of(scales, module, &layer);
  if (role == NO_ROLE) return YK_OK;
  yk_input_kind reads = kind_read_by((yk_weight_role)role), writes = kind_written_by(role);
  const fold *f;
  YK_TRY(fold_of(scales, reads, layer, &f, err));
  weight->k_scales = f->scales;
  if (writes < YK_N_INPUT_KINDS) {
    YK_TRY(fold_of(scales, writes, layer, &f, err));
    weight->n_scales = f->inverses;
  }
  if (role == YK_ROLE_Q || role == YK_ROLE_K) return YK_OK;
  yk_status status = find_limits(scales, yk_calibrated_input_of(&scales->calibration, layer, reads), weight, err);
  if (status != YK_OK) yk_err_prefix(err, "%s.weight", module);
  return status;
}

yk_status yk_awq_scales_fold(yk_awq_scales *scales, const yk_tensor *tensor, const char *module, const void **out,
                             yk_err *err)
{
  int32_t layer;
  int role = module ? role_of(scales, module, &layer) : NO_ROLE;
  yk_input_kind writes = role == NO_ROLE ? YK_N_INPUT_KINDS : kind_written_by(role);
  const fold *f;
  *out = NULL;
  if (writes == YK_N_INPUT_KINDS) return YK_OK;
  YK_TRY(fold_of(scales, writes, layer, &f, err));
  if (!f->scales) return YK_OK;
  if (roles_of[writes].writer_is_norm) {
    *out = f->norm;
    return YK_OK;
  }
  YK_TRY(yk_quantize_reserve(&scales->bias, tensor->n_bytes, err)); /* a linear layer's bias */
  memcpy(scales->bias.memory, tensor->data, tensor->n_bytes);
  yk_dtype dtype = yk_quantize_dtype(tensor);
  for (size_t i = 0; i < tensor->n_bytes / yk_dtype_bytes(dtype); i++)
    yk_dtype_store(dtype, scales->bias.memory, i, yk_dtype_load(dtype, scales->bias.memory, i) * f->inverses[i]);
  *out = scales->bias.memory;
  return YK_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

static yk_status prepare(yk_awq_scales *s, yk_err *err)
{
  const yk_quantize_options *o = s->run->options;
  const yk_device_limits limits = {
      .max_tokens = YOKE_CALIBRATION_ROWS, .max_seqs = 1, .max_model_tokens = 1, .vocab = 1};
  YK_TRY(yk_checkpoint_open(o->model_dir, &o->log, &s->checkpoint, err));
  s->config = yk_checkpoint_config(s->checkpoint);
  if (s->config->experts.n_experts > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: %d experts are not supported; supported: method rtn, and models without experts",
                      o->model_dir, s->config->experts.n_experts);
  const yk_weight_module gate = yk_weight_module_of(s->config, YK_ROLE_GATE);
  if (gate.n != gate.n_own)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: one tensor of gate and up is not supported; supported: method rtn, and families "
                      "that name modules as Llama does",
                      o->model_dir);
  s->folds = calloc((size_t)s->config->n_layers * YK_N_INPUT_KINDS, sizeof *s->folds);
  if (!s->folds) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  YK_TRY(yk_calibrate(s->run, s->checkpoint, &s->calibration, err));
  return yk_cpu_device_create(YK_F32, s->run->n_threads, &limits, &s->dev, err);
}

yk_status yk_awq_scales_create(const yk_quantize_run *run, yk_awq_scales **out, yk_err *err)
{
  yk_awq_scales *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  s->run = run;
  yk_status status = prepare(s, err);
  if (status == YK_OK)
    *out = s;
  else
    yk_awq_scales_free(s);
  return status;
}

void yk_awq_scales_free(yk_awq_scales *scales)
{
  if (!scales) return;
  for (size_t i = 0; scales->folds && i < (size_t)scales->config->n_layers * YK_N_INPUT_KINDS; i++)
    fold_free(&scales->folds[i]);
  free(scales->folds);
  yk_calibration_free(&scales->calibration);
  if (scales->dev) scales->dev->ops->destroy(scales->dev);
  yk_checkpoint_close(scales->checkpoint);
  yk_quantize_buffer *const buffers[] = {&scales->errors, &scales->outputs, &scales->limits, &scales->grams,
                                         &scales->bias};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) free(buffers[i]->memory);
  free(scales);
}
