#include "quantize/quantize_plan.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/bare_names.h"
#include "loader/hf/awq_kept.h"
#include "loader/model/linear_names.h"
#include "loader/model/quant_rules.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/other_formats.h"
#include "quantize/experts.h"

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

/* ---- The source -------------------------------------------------------------------------------------------------- */

static yk_status refuse_quantised(const char *dir, const char *file, const char *what, yk_err *err)
{
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: %s: expected 16- or 32-bit weights, found a quantised checkpoint (%s)",
                    dir, file, what);
}

/* Checks the configuration and separate files; tensors are checked one by one elsewhere. */
static yk_status check_not_quantised(const char *dir, yk_json config, yk_err *err)
{
  static const char *const keys[] = {"quantization_config", "compression_config"};
  static const char *const files[] = {"quantize_config.json", "quant_config.json", "quant_model_description.json"};
  for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
    yk_json object = yk_json_get(config, keys[i]);
    if (!yk_json_is_given(object)) continue;
    const char *method = yk_json_string(yk_json_get(object, "quant_method"));
    return refuse_quantised(dir, "config.json", method ? method : keys[i], err);
  }
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    if (yk_dir_has(dir, files[i])) return refuse_quantised(dir, files[i], "settings of a quantiser", err);
  return YK_OK;
}

static yk_status read_config(const char *dir, yk_json_doc **out, yk_err *err)
{
  char *text;
  size_t n_bytes;
  YK_TRY(yk_other_formats_check_path(dir, err));
  if (!yk_dir_has(dir, "config.json")) YK_TRY(yk_other_formats_check_dir(dir, err));
  YK_TRY(yk_dir_read(dir, "config.json", true, &text, &n_bytes, err));
  yk_status status = yk_json_parse("config.json", text, n_bytes, NULL, out, err);
  free(text);
  YK_TRY(status);
  yk_json root = yk_json_root(*out);
  if (!yk_json_is(root, YK_JSON_OBJECT))
    return yk_err_set(err, YK_E_FORMAT, "config.json: expected an object, found %s", yk_json_type_name(root));
  return check_not_quantised(dir, root, err);
}

static yk_status check_tensor(const yk_quantize_options *options, const yk_planned_tensor *tensor, yk_err *err)
{
  static const char *const suffixes[] = {".qweight", ".weight_packed", ".weight_scale", ".weight_scale_inv",
                                         ".weight_offset"};
  const yk_tensor *source = tensor->source;
  for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
    if (ends_with(source->name, suffixes[i]))
      return refuse_quantised(options->model_dir, tensor->file, source->name, err);
  bool is_float = source->dtype == YK_TENSOR_F16 || source->dtype == YK_TENSOR_BF16 || source->dtype == YK_TENSOR_F32;
  if (yk_weight_kind_of(source->name) == YK_KIND_LINEAR && !is_float)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: expected F16, BF16 or F32, found %s", tensor->file,
                      source->name, yk_tensor_dtype_name(source->dtype));
  return YK_OK;
}

/* ---- Decisions --------------------------------------------------------------------------------------------------- */

/* Layers that stay unchanged although the options do not list them: their number, and the first. */
typedef struct remark {
  int n;
  const char *first;
} remark;

typedef struct decisions {
  const yk_quantize_options *options;
  yk_quantize_plan *plan;
  bool *keep_used; /* [options->n_keep] */
  remark by_shape, by_name;
} decisions;

static bool is_listed_to_stay(decisions *d, const char *name)
{
  bool stays = false;
  for (size_t i = 0; i < d->options->n_keep; i++) {
    if (!yk_name_has_parts(name, d->options->keep[i])) continue;
    d->keep_used[i] = stays = true;
  }
  return stays;
}

static bool fits(const decisions *d, const yk_tensor *tensor)
{
  if (tensor->n_dims != 2 || tensor->shape[0] < 8 || tensor->shape[1] < 1) return false;
  return tensor->shape[0] % 8 == 0 && tensor->shape[1] % yk_quantize_group(d->plan->group_size, tensor->shape[1]) == 0;
}

static yk_status keep(decisions *d, yk_planned_tensor *tensor, remark *why)
{
  if (why && why->n++ == 0) why->first = tensor->source->name;
  tensor->is_kept = true;
  d->plan->n_kept++;
  return YK_OK;
}

static yk_status decide(decisions *d, yk_planned_tensor *tensor, yk_err *err)
{
  const yk_tensor *source = tensor->source;
  yk_weight_kind kind = yk_weight_kind_of(source->name);
  bool stays = is_listed_to_stay(d, source->name);
  YK_TRY(check_tensor(d->options, tensor, err));
  if (kind == YK_KIND_OTHER || (kind == YK_KIND_UNKNOWN && source->n_dims < 2)) return YK_OK;
  if (stays || kind == YK_KIND_GATE) return keep(d, tensor, NULL);
  if (kind == YK_KIND_UNKNOWN) return keep(d, tensor, &d->by_name);
  if (!fits(d, source)) return keep(d, tensor, &d->by_shape);
  tensor->is_quantised = true;
  d->plan->n_quantised++;
  return YK_OK;
}

static yk_status report_decisions(const decisions *d, yk_err *err)
{
  const yk_quantize_options *options = d->options;
  for (size_t i = 0; i < options->n_keep; i++)
    if (!d->keep_used[i] && strcmp(options->keep[i], "lm_head") != 0) /* stays in any case, or is tied */
      return yk_err_set(err, YK_E_INVAL,
                        "keep \"%s\": expected some of the parts between dots of a module's name, found none of %s",
                        options->keep[i], options->model_dir);
  char fit[48] = "have a multiple of 8 outputs", misfit[64] = "its outputs are no multiple of 8";
  if (d->plan->group_size > 0) {
    snprintf(fit, sizeof fit, "groups of %d divide", (int)d->plan->group_size);
    snprintf(misfit, sizeof misfit, "groups of %d do not divide its inputs, or 8 its outputs",
             (int)d->plan->group_size);
  }
  if (d->plan->n_quantised == 0)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: expected linear layers (model.layers.0.self_attn.q_proj.weight ...) that %s%s, found none",
                      options->model_dir, fit, options->n_keep ? " and keep does not name" : "");
  if (d->by_shape.n)
    yk_log_write(&options->log, YK_LOG_WARN, "%s (%d modules in all) stays as it is: %s", d->by_shape.first,
                 d->by_shape.n, misfit);
  if (d->by_name.n)
    yk_log_write(&options->log, YK_LOG_WARN,
                 "%s (%d tensors in all) stays as it is: its name is not that of a linear layer of a supported family",
                 d->by_name.first, d->by_name.n);
  return YK_OK;
}

static yk_status no_memory(yk_err *err)
{
  return yk_err_set(err, YK_E_NOMEM, "no memory for the names of layers");
}

static int by_name(const void *a, const void *b)
{
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static yk_status sort_quantised(yk_quantize_plan *plan, yk_err *err)
{
  size_t n = 0;
  plan->quantised = calloc((size_t)plan->n_quantised, sizeof *plan->quantised);
  if (!plan->quantised) return no_memory(err);
  for (size_t i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i].is_quantised) plan->quantised[n++] = plan->tensors[i].module;
  qsort(plan->quantised, n, sizeof *plan->quantised, by_name);
  return YK_OK;
}

/* Readers would otherwise expect 4 bits in other parts of a model: its vision tower, and layers that predict further
 * tokens. */
static void name_other_parts(yk_quantize_plan *plan)
{
  static const struct {
    const char *begin, *name;
  } parts[] = {{"model.visual.", ", \"visual\""}, {"mtp.", ", \"mtp\""}};
  for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
    for (size_t i = 0; i < plan->n_tensors; i++) {
      if (strncmp(plan->tensors[i].source->name, parts[p].begin, strlen(parts[p].begin)) != 0) continue;
      yk_strbuf_append_str(&plan->kept, parts[p].name);
      break;
    }
}

static yk_status name_kept(const decisions *d, yk_err *err)
{
  yk_quantize_plan *plan = d->plan;
  size_t n = 0;
  const char **kept = calloc((size_t)plan->n_kept + 1, sizeof *kept);
  if (!kept) return no_memory(err);
  yk_strbuf_append_str(&plan->kept, "\"lm_head\"");
  for (size_t i = 0; i < plan->n_tensors; i++)
    if (plan->tensors[i].is_kept) kept[n++] = plan->tensors[i].module;
  const yk_awq_modules modules = {kept, n, plan->quantised, (size_t)plan->n_quantised};
  yk_awq_kept_warn(&modules, plan->group_size, &d->options->log);
  yk_awq_kept_append(&modules, &plan->kept);
  name_other_parts(plan);
  free(kept);
  return plan->kept.failed ? no_memory(err) : YK_OK;
}

static yk_status decide_all(const yk_quantize_options *options, yk_quantize_plan *plan, yk_err *err)
{
  decisions d = {.options = options, .plan = plan, .keep_used = calloc(options->n_keep + 1, sizeof *d.keep_used)};
  yk_status status = d.keep_used ? YK_OK : no_memory(err);
  for (size_t i = 0; i < plan->n_tensors && status == YK_OK; i++) status = decide(&d, &plan->tensors[i], err);
  if (status == YK_OK) status = report_decisions(&d, err);
  if (status == YK_OK) status = sort_quantised(plan, err);
  if (status == YK_OK) status = name_kept(&d, err);
  free(d.keep_used);
  return status;
}

/* ---- The table --------------------------------------------------------------------------------------------------- */

static int by_place(const void *a, const void *b)
{
  const yk_planned_tensor *x = a, *y = b;
  int files = strcmp(x->file, y->file);
  if (files != 0) return files;
  if (x->source->data != y->source->data) return x->source->data < y->source->data ? -1 : 1;
  return strcmp(x->source->name, y->source->name); /* for tensors without elements */
}

static char *module_of(const char *name)
{
  const char *dot = strrchr(name, '.');
  if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0)) return NULL;
  return strndup(name, (size_t)(dot - name));
}

static yk_status list_tensor(yk_quantize_plan *plan, const yk_tensor *source, const char *file, yk_err *err)
{
  yk_planned_tensor *tensor = &plan->tensors[plan->n_tensors++];
  *tensor = (yk_planned_tensor){.source = source, .file = file, .module = module_of(source->name)};
  plan->total_bytes += (int64_t)source->n_bytes;
  if (tensor->module || (!ends_with(source->name, ".weight") && !ends_with(source->name, ".bias"))) return YK_OK;
  return yk_err_set(err, YK_E_NOMEM, "no memory for the names of tensors");
}

/* List a tensor of the files, or the layers that it consists of. */
static yk_status list_source(yk_quantize_plan *plan, const yk_tensor *source, yk_err *err)
{
  const char *file;
  int64_t n_layers = yk_experts_count(source);
  yk_shards_find(plan->shards, source->name, &file);
  if (n_layers == 0) return list_tensor(plan, source, file, err);
  YK_TRY(yk_experts_check(source, yk_json_root(plan->config), err));
  for (int64_t i = 0; i < n_layers; i++) {
    yk_tensor *layer = &plan->experts[plan->n_experts++];
    YK_TRY(yk_experts_layer(source, i, layer, err));
    YK_TRY(list_tensor(plan, layer, file, err));
  }
  return YK_OK;
}

static yk_status list_tensors(yk_quantize_plan *plan, yk_err *err)
{
  size_t n_sources = yk_shards_count(plan->shards), n = n_sources, n_experts = 0;
  for (size_t i = 0; i < n_sources; i++) n_experts += (size_t)yk_experts_count(yk_shards_at(plan->shards, i));
  n += n_experts;
  plan->experts = calloc(n_experts + 1, sizeof *plan->experts);
  plan->tensors = calloc(n + 1, sizeof *plan->tensors);
  plan->files = calloc(n + 1, sizeof *plan->files);
  if (!plan->experts || !plan->tensors || !plan->files)
    return yk_err_set(err, YK_E_NOMEM, "no memory for a table of %zu tensors", n);
  for (size_t i = 0; i < n_sources; i++) YK_TRY(list_source(plan, yk_shards_at(plan->shards, i), err));
  qsort(plan->tensors, plan->n_tensors, sizeof *plan->tensors, by_place);
  for (size_t i = 0; i < plan->n_tensors; i++)
    if (i == 0 || strcmp(plan->tensors[i].file, plan->tensors[i - 1].file) != 0)
      plan->files[plan->n_files++] = plan->tensors[i].file;
  return YK_OK;
}

yk_status yk_quantize_plan_make(const yk_quantize_options *options, yk_quantize_plan *out, yk_err *err)
{
  *out = (yk_quantize_plan){.group_size = options->group_size};
  YK_TRY(read_config(options->model_dir, &out->config, err));
  YK_TRY(yk_shards_open(options->model_dir, &options->log, &out->shards, err));
  YK_TRY(yk_bare_names_prefix(out->shards, "model.embed_tokens", "lm_head", err));
  YK_TRY(list_tensors(out, err));
  return decide_all(options, out, err);
}

void yk_quantize_plan_free(yk_quantize_plan *plan)
{
  for (size_t i = 0; i < plan->n_tensors; i++) free(plan->tensors[i].module);
  for (size_t i = 0; i < plan->n_experts; i++) free((char *)plan->experts[i].name);
  free(plan->experts);
  free(plan->tensors);
  free(plan->quantised);
  free(plan->files);
  yk_json_free(plan->config);
  yk_strbuf_free(&plan->kept);
  yk_shards_close(plan->shards);
}

bool yk_quantize_plan_has(const yk_quantize_plan *plan, const char *module)
{
  return bsearch(&module, plan->quantised, (size_t)plan->n_quantised, sizeof *plan->quantised, by_name) != NULL;
}
