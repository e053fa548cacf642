#include "quantize/awq_scales.h"

#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "kernels/device.h"
#include "quantize/awq_search.h"

/* The scales of inputs that linear layers share, after the search. */
typedef struct known_fold {
  bool is_known;
  yk_awq_fold fold;
} known_fold;

struct yk_awq_scales {
  yk_awq_search search;
  known_fold *folds;                     /* [n_layers, folds_per_layer] */
  yk_quantize_buffer k_scales, n_scales; /* for the next operation */
  void *folded;                          /* host */
};

/* One entry per input kind, and for the last kind one per expert. */
static size_t folds_per_layer(const yk_model_config *config)
{
  return YK_N_INPUT_KINDS + (size_t)config->experts.n_experts;
}

/* ---- Folds ------------------------------------------------------------------------------------------------------- */

static bool is_quantised(const yk_awq_scales *s, yk_weight_role role, int32_t layer, int32_t expert)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_weight_name_of_expert(s->search.config, role, layer, expert, name);
  return yk_quantize_plan_has(&s->search.rank->run->plan, name);
}

/* Whether a role is quantised for one expert, or for all experts of the layer. */
static bool are_quantised(const yk_awq_scales *s, const yk_awq_inputs *inputs, yk_weight_role role)
{
  if (inputs->kind == YK_INPUT_EXPERT_DOWN) return is_quantised(s, role, inputs->layer, inputs->expert);
  for (int32_t i = 0; i < yk_weight_count(s->search.config, role, inputs->layer); i++)
    if (!is_quantised(s, role, inputs->layer, i)) return false;
  return true;
}

static bool is_reached(const yk_awq_scales *s, int32_t layer, int32_t expert)
{
  return yk_calibrated_expert_rows(&s->search.calibration, layer, YK_INPUT_EXPERT_DOWN, expert, NULL) > 0;
}

static bool can_fold(const yk_awq_scales *s, const yk_awq_inputs *inputs)
{
  const yk_model_config *config = s->search.config;
  const yk_input_roles roles = yk_input_roles_of(config, inputs->layer, inputs->kind);
  bool shares_values = config->latent.kv_rank == 0 && (config->value_norms || config->n_heads != config->n_kv_heads);
  if (inputs->kind == YK_INPUT_O && shares_values) return false;
  if (inputs->kind == YK_INPUT_EXPERT_DOWN && !is_reached(s, inputs->layer, inputs->expert)) return false;
  if (!roles.writer_is_norm && !are_quantised(s, inputs, roles.writer)) return false;
  for (int i = 0; i < roles.n_readers; i++)
    if (!are_quantised(s, inputs, roles.readers[i])) return false;
  return roles.n_readers > 0;
}

/* The scales of the inputs, searched at the first use. */
static yk_status fold_of(yk_awq_scales *s, const yk_awq_inputs *inputs, const yk_awq_fold **out, yk_err *err)
{
  size_t place = (size_t)inputs->kind + (size_t)inputs->expert;
  known_fold *f = &s->folds[(size_t)inputs->layer * folds_per_layer(s->search.config) + place];
  *out = &f->fold;
  if (f->is_known) return YK_OK;
  yk_status status = can_fold(s, inputs) ? yk_awq_search_scales(&s->search, inputs, &f->fold, err) : YK_OK;
  if (status != YK_OK) {
    yk_awq_fold_free(&f->fold);
    yk_err_prefix(err, "layer %d, scales", (int)inputs->layer);
  }
  f->is_known = status == YK_OK;
  return status;
}

/* ---- Public functions -------------------------------------------------------------------------------------------- */

/* The inputs that a module of a layer reads or writes. */
static yk_awq_inputs inputs_at(const yk_weight_place *place, yk_input_kind kind)
{
  return (yk_awq_inputs){place->layer, kind, kind == YK_INPUT_EXPERT_DOWN ? place->expert : 0};
}

static yk_status show_floats(const yk_awq_scales *s, yk_quantize_buffer *buffer, const float *floats, int64_t n,
                             const float **out, yk_err *err)
{
  const void *shown = NULL;
  if (floats) YK_TRY(yk_quantize_show(s->search.rank, buffer, floats, (size_t)n * sizeof *floats, &shown, err));
  *out = shown;
  return YK_OK;
}

/* The input kind that a module of a layer writes, in any of its roles. */
static yk_input_kind written_by(const yk_model_config *config, const char *module, const yk_weight_place *place)
{
  char name[YK_WEIGHT_NAME_BYTES];
  yk_input_kind kind = YK_N_INPUT_KINDS;
  for (yk_weight_role role = place->role; role < YK_N_ROLES && kind == YK_N_INPUT_KINDS; role++) {
    yk_weight_name_of_expert(config, role, place->layer, place->expert, name);
    if (strcmp(name, module) == 0) kind = yk_input_written_by(config, place->layer, role);
  }
  return kind;
}

/* Clipping harms the product of q and k, so q, k and the layers that produce them are not clipped. */
static bool may_be_cut(yk_weight_role role)
{
  return role != YK_ROLE_Q && role != YK_ROLE_K && role != YK_ROLE_Q_A && role != YK_ROLE_Q_B;
}

yk_status yk_awq_scales_apply(yk_awq_scales *scales, const char *module, yk_awq_floats *weight, yk_err *err)
{
  const yk_model_config *config = scales->search.config;
  yk_weight_place place;
  if (!yk_weight_find(config, module, &place)) return YK_OK;
  const yk_awq_inputs reads = inputs_at(&place, yk_input_read_by(config, place.layer, place.role));
  const yk_awq_inputs writes = inputs_at(&place, written_by(config, module, &place));
  const yk_awq_fold *f, *written = NULL;
  if (reads.kind == YK_N_INPUT_KINDS) return YK_OK; /* out_proj of a gated delta net: one norm for all its heads */
  YK_TRY(fold_of(scales, &reads, &f, err));
  if (writes.kind < YK_N_INPUT_KINDS) YK_TRY(fold_of(scales, &writes, &written, err));
  YK_TRY(show_floats(scales, &scales->k_scales, f->scales, weight->k, &weight->k_scales, err));
  if (written) YK_TRY(show_floats(scales, &scales->n_scales, written->inverses, weight->n, &weight->n_scales, err));
  if (!may_be_cut(place.role)) return YK_OK;
  yk_status status = yk_awq_search_limits(&scales->search, &place, weight, err);
  if (status != YK_OK) yk_err_prefix(err, "%s.weight", module);
  return status;
}

/* folded <- the tensor's elements, each times the factor of its output (for a weight, of its input). */
static yk_status multiply(yk_awq_scales *s, const yk_tensor *tensor, const float *factors, yk_err *err)
{
  yk_dtype dtype = yk_quantize_dtype(tensor);
  size_t n = tensor->n_bytes / yk_dtype_bytes(dtype);
  size_t n_factors = (size_t)tensor->shape[tensor->n_dims - 1];
  free(s->folded);
  s->folded = malloc(tensor->n_bytes);
  if (!s->folded) return yk_err_set(err, YK_E_NOMEM, "no memory for %s", tensor->name);
  memcpy(s->folded, tensor->data, tensor->n_bytes);
  for (size_t i = 0; i < n; i++)
    yk_dtype_store(dtype, s->folded, i, yk_dtype_load(dtype, s->folded, i) * factors[i % n_factors]);
  return YK_OK;
}

yk_status yk_awq_scales_fold(yk_awq_scales *scales, const yk_tensor *tensor, const char *module, const void **out,
                             yk_err *err)
{
  const yk_model_config *config = scales->search.config;
  yk_weight_place place;
  const yk_awq_fold *f;
  *out = NULL;
  if (!module || !yk_weight_find(config, module, &place)) return YK_OK;
  bool is_float_reader = yk_input_stays_float(place.role);
  const yk_awq_inputs inputs =
      inputs_at(&place, is_float_reader ? yk_input_read_by(config, place.layer, place.role)
                                        : yk_input_written_by(config, place.layer, place.role));
  if (inputs.kind == YK_N_INPUT_KINDS) return YK_OK;
  YK_TRY(fold_of(scales, &inputs, &f, err));
  if (!f->scales) return YK_OK;
  if (f->norm && !is_float_reader) {
    *out = f->norm;
    return YK_OK;
  }
  YK_TRY(multiply(scales, tensor, is_float_reader ? f->scales : f->inverses, err));
  *out = scales->folded;
  return YK_OK;
}

/* ---- Beginning and end ------------------------------------------------------------------------------------------- */

static void report_unreached(const yk_awq_scales *s)
{
  const yk_model_config *config = s->search.config;
  int64_t n = 0, n_unreached = 0;
  for (int32_t layer = 0; layer < config->n_layers; layer++)
    for (int32_t e = 0; config->experts.layers[layer] && e < config->experts.n_experts; e++, n++)
      n_unreached += !is_reached(s, layer, e);
  if (n_unreached == 0) return;
  yk_log_write(&s->search.rank->run->options->log, YK_LOG_WARN,
               "%lld of %lld experts were chosen by none of the %d tokens that are kept of the calibration text: their "
               "down projections are rounded without scales, and none of their layers is cut",
               (long long)n_unreached, (long long)n, (int)s->search.calibration.n_rows);
}

static yk_status prepare(yk_awq_scales *s, yk_err *err)
{
  yk_awq_search *search = &s->search;
  search->checkpoint = search->rank->run->checkpoint;
  search->config = yk_checkpoint_config(search->checkpoint);
  s->folds = calloc((size_t)search->config->n_layers * folds_per_layer(search->config), sizeof *s->folds);
  if (!s->folds) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  YK_TRY(yk_calibrate(search->rank, &search->calibration, err));
  if (search->rank->index == 0) report_unreached(s);
  return YK_OK;
}

yk_status yk_awq_scales_check(const yk_checkpoint *checkpoint, const char *dir, yk_err *err)
{
  const yk_model_config *config = yk_checkpoint_config(checkpoint);
  const yk_weight_module gate = yk_weight_module_of(config, YK_ROLE_GATE, 0);
  if (!config->activation.is_gated)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: feed-forward networks without a gate are not supported; supported: method rtn",
                      dir);
  if (gate.n != gate.n_own)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: one tensor of gate and up is not supported; supported: method rtn, and families "
                      "that name modules as Llama does",
                      dir);
  if (yk_checkpoint_config(checkpoint)->experts.has_branches)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: method awq: experts in parallel with a dense FFN are not supported; supported: method rtn",
                      dir);
  return yk_calibration_check(checkpoint, err);
}

yk_status yk_awq_scales_create(const yk_quantize_rank *rank, yk_awq_scales **out, yk_err *err)
{
  yk_awq_scales *s = calloc(1, sizeof *s);
  if (!s) return yk_err_set(err, YK_E_NOMEM, "no memory for the scales of layers");
  s->search.rank = rank;
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
  const yk_model_config *config = scales->search.config;
  for (size_t i = 0; scales->folds && i < (size_t)config->n_layers * folds_per_layer(config); i++)
    yk_awq_fold_free(&scales->folds[i].fold);
  free(scales->folds);
  yk_quantize_release(scales->search.rank, &scales->k_scales);
  yk_quantize_release(scales->search.rank, &scales->n_scales);
  yk_awq_search_free(&scales->search);
  free(scales->folded);
  free(scales);
}
