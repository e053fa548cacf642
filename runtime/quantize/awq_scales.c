#include "quantize/awq_scales.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/device.h"
#include "quantize/calibration.h"

enum { GRID = 20, MAX_READERS = 3, NO_ROLE = -1 };

/* The scales of the inputs that a layer's linear layers of a kind share. */
typedef struct fold {
  bool is_known;
  float *scales;   /* [k], or NULL: none */
  float *inverses; /* [k] */
  void *norm;      /* the norm that writes the inputs, divided; NULL where a linear layer does */
} fold;

struct yk_awq_scales {
  const yk_quantize_rank *rank;
  const yk_checkpoint *checkpoint;
  const yk_model_config *config;
  yk_calibration calibration;
  fold *folds;                             /* [n_layers, YK_N_INPUT_KINDS] */
  yk_quantize_buffer readers[MAX_READERS]; /* weights that are searched for */
  yk_quantize_buffer k_scales, n_scales;   /* of the next operation */
  yk_quantize_buffer scratch, limits, grams;
  void *bias; /* host */
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
  return yk_quantize_plan_has(&s->rank->run->plan, name);
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
                         .group = yk_quantize_group(s->rank->run->plan.group_size, m.k)};
  return YK_OK;
}

/* ---- The loss of some scales ------------------------------------------------------------------------------------- */

/* The weights of a kind's readers, where the device sees them. */
static yk_status show_readers(yk_awq_scales *s, yk_input_kind kind, int32_t layer, yk_awq_floats *weights, yk_err *err)
{
  for (int i = 0; i < roles_of[kind].n_readers; i++) {
    YK_TRY(floats_of(s, roles_of[kind].readers[i], layer, &weights[i], err));
    size_t n_bytes = (size_t)(weights[i].n * weights[i].k) * yk_dtype_bytes(weights[i].dtype);
    YK_TRY(yk_quantize_show(s->rank, &s->readers[i], weights[i].w, n_bytes, &weights[i].w, err));
  }
  return YK_OK;
}

static yk_status show_floats(const yk_awq_scales *s, yk_quantize_buffer *buffer, const float *floats, int64_t n,
                             const float **out, yk_err *err)
{
  const void *shown = NULL;
  if (floats) YK_TRY(yk_quantize_show(s->rank, buffer, floats, (size_t)n * sizeof *floats, &shown, err));
  *out = shown;
  return YK_OK;
}

static yk_status reserve_scratch(yk_awq_scales *s, const yk_awq_floats *weight, const yk_calibrated_input *input,
                                 yk_err *err)
{
  int64_t n_floats = yk_awq_scratch_floats(weight->n, weight->k, input->n_rows);
  return yk_quantize_reserve(s->rank, &s->scratch, (size_t)n_floats * sizeof(float), err);
}

/* What the scales change the readers' outputs by: sum over sampled rows and outputs of the square. */
static yk_status loss_of(yk_awq_scales *s, yk_input_kind kind, int32_t layer, const yk_awq_floats *weights,
                         const float *scales, double *loss, yk_err *err)
{
  const yk_calibrated_input *input = yk_calibrated_input_of(&s->calibration, layer, kind);
  const yk_quantize_run *run = s->rank->run;
  yk_device *dev = s->rank->dev;
  const float *k_scales;
  *loss = 0;
  YK_TRY(show_floats(s, &s->k_scales, scales, input->k, &k_scales, err));
  for (int i = 0; i < roles_of[kind].n_readers; i++) {
    double own;
    YK_TRY(reserve_scratch(s, &weights[i], input, err));
    yk_awq_loss_args args = {.weight = weights[i],
                             .rows = input->rows,
                             .n_rows = input->n_rows,
                             .scratch = s->scratch.memory,
                             .found = s->rank->found.memory};
    args.weight.k_scales = k_scales;
    YK_TRY(dev->ops->awq_loss(dev, &args, err));
    YK_TRY(yk_quantize_found(s->rank, &args.weight, &own, err));
    *loss += own;
  }
  return yk_quantize_progress(s->rank, "searching", atomic_load(&run->done_bytes), run->plan.total_bytes, err);
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
  yk_awq_floats weights[MAX_READERS];
  double best_loss = INFINITY, best_power = 0;
  YK_TRY(show_readers(s, kind, layer, weights, err));
  for (int i = 0; i <= GRID; i++) { /* the last time with the best power, to keep its scales */
    double power = i < GRID ? (double)i / GRID : best_power, loss;
    power_scales(&s->calibration, input, power, out->scales);
    if (norm) divide_norm(norm, out->scales, out->norm);
    if (i == GRID) break;
    YK_TRY(loss_of(s, kind, layer, weights, out->scales, &loss, err));
    if (loss >= best_loss) continue;
    best_loss = loss;
    best_power = power;
  }
  for (int64_t i = 0; i < input->k; i++) out->inverses[i] = 1.0f / out->scales[i];
  yk_log_write(&s->rank->run->options->log, YK_LOG_DEBUG, "layer %d, inputs %d: power %g, loss %g", (int)layer,
               (int)kind, best_power, best_loss);
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
  const yk_quantize_rank *rank = s->rank;
  if (weight->group > YK_AWQ_MAX_LIMITED_GROUP) return YK_OK;
  size_t n_limits = (size_t)(weight->n * (weight->k / weight->group));
  YK_TRY(reserve_scratch(s, weight, input, err));
  YK_TRY(yk_quantize_reserve(rank, &s->grams, (size_t)(weight->k * weight->group) * sizeof(float), err));
  YK_TRY(yk_quantize_reserve(rank, &s->limits, n_limits * sizeof(float), err));
  const yk_awq_limits_args args = {.weight = *weight,
                                   .rows = input->rows,
                                   .n_rows = input->n_rows,
                                   .grams = s->grams.memory,
                                   .scratch = s->scratch.memory,
                                   .limits = s->limits.memory,
                                   .found = rank->found.memory};
  YK_TRY(rank->dev->ops->awq_limits(rank->dev, &args, err));
  weight->limits = s->limits.memory;
  return yk_quantize_found(rank, weight, NULL, err);
}

yk_status yk_awq_scales_apply(yk_awq_scales *scales, const char *module, yk_awq_floats *weight, yk_err *err)
{
  int32_t layer;
  int role = role_of(scales, module, &layer);
  if (role == NO_ROLE) return YK_OK;
  yk_input_kind reads = kind_read_by((yk_weight_role)role), writes = kind_written_by(role);
  const fold *f;
  YK_TRY(fold_of(scales, reads, layer, &f, err));
  const fold *written = NULL;
  if (writes < YK_N_INPUT_KINDS) YK_TRY(fold_of(scales, writes, layer, &written, err));
  YK_TRY(show_floats(scales, &scales->k_scales, f->scales, weight->k, &weight->k_scales, err));
  if (written) YK_TRY(show_floats(scales, &scales->n_scales, written->inverses, weight->n, &weight->n_scales, err));
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
  free(scales->bias);
  scales->bias = malloc(tensor->n_bytes); /* a linear layer's bias */
  if (!scales->bias) return yk_err_set(err, YK_E_NOMEM, "no memory for a bias");
  memcpy(scales->bias, tensor->data, tensor->n_bytes);
  yk_dtype dtype = yk_quantize_dtype(tensor);
  for (size_t i = 0; i < tensor->n_bytes / yk_dtype_bytes(dtype); i++)
    yk_dtype_store(dtype, scales->bias, i, yk_dtype_load(dtype, scales->bias, i) * f->inverses[i]);
  *out = scales->bias;
  return YK_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

static yk_status prepare(yk_awq_scales *s, yk_err *err)
{
  s->checkpoint = s->rank->run->checkpoint;
  s->config = yk_checkpoint_config(s->checkpoint);
  s->folds = calloc((size_t)s->config->n_layers * YK_N_INPUT_KINDS, sizeof *s->folds);
  if (!s->folds) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  return yk_calibrate(s->rank, &s->calibration, err);
}

yk_status yk_awq_scales_check(const yk_checkpoint *checkpoint, const char *dir, yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  if (config->experts.n_experts > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: %d experts are not supported; supported: method rtn, and models without experts",
                      dir, config->experts.n_experts);
  if (config->latent.kv_rank > 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: latent attention is not supported; supported: method rtn, and models without it",
                      dir);
  const yk_weight_module gate = yk_weight_module_of(config, YK_ROLE_GATE);
  if (gate.n != gate.n_own)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: one tensor of gate and up is not supported; supported: method rtn, and families "
                      "that name modules as Llama does",
                      dir);
  return yk_calibration_check(checkpoint, err);
}

yk_status yk_awq_scales_create(const yk_quantize_rank *rank, yk_awq_scales **out, yk_err *err)
{
  yk_awq_scales *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  s->rank = rank;
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
  yk_calibration_free(scales->rank, &scales->calibration);
  yk_quantize_buffer *const buffers[] = {&scales->readers[0], &scales->readers[1], &scales->readers[2],
                                         &scales->k_scales,   &scales->n_scales,   &scales->scratch,
                                         &scales->limits,     &scales->grams};
  for (size_t i = 0; i < sizeof buffers / sizeof *buffers; i++) yk_quantize_release(scales->rank, buffers[i]);
  free(scales->bias);
  free(scales);
}
