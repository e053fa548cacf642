#include "loader/adapter/adapter.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/model/weight_modules.h"
#include "loader/safetensors/dir.h"
#include "loader/safetensors/safetensors.h"

static const char config_file[] = "adapter_config.json", weights_file[] = "adapter_model.safetensors";
static const char suffix_a[] = ".lora_A.weight", suffix_b[] = ".lora_B.weight";

struct yk_adapter {
  yk_safetensors *file;
  yk_adapter_module *modules; /* [n] by the names of their tensors */
  size_t n;
};

/* The model that an adapter is checked against, and the sources of the adapter's parts. */
typedef struct check {
  const char *name; /* of the weights, for errors */
  const yk_model_config *config;
  const yk_adapter_config *numbers;
  int32_t max_rank;
} check;

enum { MODULE_BYTES = 256 };

static bool ends_with(const char *text, const char *end)
{
  size_t n = strlen(text), n_end = strlen(end);
  return n >= n_end && strcmp(text + n - n_end, end) == 0;
}

bool yk_adapter_can_change(yk_weight_role role)
{
  switch (role) {
  case YK_ROLE_Q:
  case YK_ROLE_K:
  case YK_ROLE_V:
  case YK_ROLE_O:
  case YK_ROLE_GATE:
  case YK_ROLE_UP:
  case YK_ROLE_DOWN:
  case YK_ROLE_Q_A:
  case YK_ROLE_Q_B:
  case YK_ROLE_KV_A:
  case YK_ROLE_DELTA_QKV:
  case YK_ROLE_DELTA_Z:
  case YK_ROLE_DELTA_B:
  case YK_ROLE_DELTA_A:
  case YK_ROLE_DELTA_QKVZ:
  case YK_ROLE_DELTA_BA:
  case YK_ROLE_DELTA_OUT:
  case YK_ROLE_MAMBA_IN:
  case YK_ROLE_MAMBA_OUT: return true;
  default: return false;
  }
}

/* ---- Names ------------------------------------------------------------------------------------------------------- */

/* The name of the module of a tensor within the base model, as PEFT matches patterns with it. False: too long. */
static bool module_of(const char *tensor, const char *suffix, char out[MODULE_BYTES])
{
  static const char wrapped[] = "base_model.model.";
  if (strncmp(tensor, wrapped, strlen(wrapped)) == 0) tensor += strlen(wrapped);
  size_t n = strlen(tensor) - strlen(suffix);
  if (n == 0 || n >= MODULE_BYTES) return false;
  memcpy(out, tensor, n);
  out[n] = '\0';
  return true;
}

/* The name in the checkpoint's style: classes of transformers have the layers of the same model under other modules. */
static void to_family(const yk_model_config *config, const char *module, char out[YK_WEIGHT_NAME_BYTES])
{
  static const char layers[] = "layers.";
  char prefix[YK_WEIGHT_NAME_BYTES] = "";
  const char *within = yk_weight_within_text(module);
  const bool is_in_layer = strncmp(within ? within : module, layers, strlen(layers)) == 0;
  if (is_in_layer) {
    yk_weight_layer_prefix(config, prefix);
    module = (within ? within : module) + strlen(layers);
  }
  snprintf(out, YK_WEIGHT_NAME_BYTES, "%s%s", prefix, module);
}

static yk_status find_place(const check *c, const yk_tensor *tensor, const char *module, yk_weight_place *out,
                            yk_err *err)
{
  char name[YK_WEIGHT_NAME_BYTES];
  to_family(c->config, module, name);
  bool is_known = yk_weight_find(c->config, name, out);
  if (strstr(module, ".experts") || strstr(module, ".shared_expert") || (is_known && out->role == YK_ROLE_ROUTER))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: adapters of a mixture of experts are not supported",
                      c->name, tensor->name);
  if (!is_known)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: tensor %s: no such module in the model's layers: another base model, or an adapter of "
                      "embeddings or lm_head, which is not supported",
                      c->name, tensor->name);
  if (yk_adapter_can_change(out->role)) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: adapters of this module are not supported", c->name,
                    tensor->name);
}

/* ---- Tensors ----------------------------------------------------------------------------------------------------- */

static yk_status read_matrix(const check *c, const yk_tensor *tensor, int64_t n_rows, int64_t n_columns,
                             yk_adapter_matrix *out, yk_err *err)
{
  *out = (yk_adapter_matrix){.data = tensor->data, .n_rows = n_rows, .n_columns = n_columns};
  switch (tensor->dtype) {
  case YK_TENSOR_F16: out->dtype = YK_F16; break;
  case YK_TENSOR_BF16: out->dtype = YK_BF16; break;
  case YK_TENSOR_F32: out->dtype = YK_F32; break;
  default:
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: expected F16, BF16 or F32, found %s", c->name,
                      tensor->name, yk_tensor_dtype_name(tensor->dtype));
  }
  if (tensor->n_dims == 2 && tensor->shape[0] == n_rows && tensor->shape[1] == n_columns) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: expected the shape [%" PRId64 ", %" PRId64 "] for this model, found %d dimensions "
                    "of %" PRId64 ", %" PRId64 ": another base model, or other ranks than %s",
                    c->name, tensor->name, n_rows, n_columns, tensor->n_dims, tensor->n_dims > 0 ? tensor->shape[0] : 1,
                    tensor->n_dims > 1 ? tensor->shape[1] : 1, config_file);
}

/* The tensor of this name, or NULL; the table is sorted. */
static const yk_tensor *find_tensor(const yk_safetensors *file, const char *name)
{
  size_t low = 0, high = yk_safetensors_count(file);
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = strcmp(yk_safetensors_at(file, middle)->name, name);
    if (order == 0) return yk_safetensors_at(file, middle);
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return NULL;
}

/* The tensor of the same module with another suffix. */
static const yk_tensor *partner_of(const yk_safetensors *file, const yk_tensor *tensor, const char *suffix,
                                   const char *partner)
{
  char name[2 * MODULE_BYTES];
  int n = snprintf(name, sizeof name, "%.*s%s", (int)(strlen(tensor->name) - strlen(suffix)), tensor->name, partner);
  return n > 0 && n < (int)sizeof name ? find_tensor(file, name) : NULL;
}

static yk_status read_module(const check *c, const yk_safetensors *file, const yk_tensor *a, yk_adapter_module *out,
                             yk_err *err)
{
  char module[MODULE_BYTES];
  yk_weight_place place;
  const yk_tensor *b = partner_of(file, a, suffix_a, suffix_b);
  if (!module_of(a->name, suffix_a, module) || !b)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: tensor %s: expected a tensor with the same name and %s beside it, found "
                      "none",
                      c->name, a->name, suffix_b);
  YK_TRY(find_place(c, a, module, &place, err));
  const int32_t rank = yk_adapter_config_rank(c->numbers, module);
  if (rank == 0)
    return yk_err_set(
        err, YK_E_FORMAT,
        "%s: rank_pattern: expected integers of 1 to %d and patterns that match in few steps, found others "
        "for %s",
        config_file, YK_ADAPTER_MAX_RANK, module);
  const yk_weight_module shape = yk_weight_module_of(c->config, place.role, place.layer);
  YK_TRY(read_matrix(c, a, rank, shape.k, &out->a, err));
  YK_TRY(read_matrix(c, b, shape.n, rank, &out->b, err));
  if (rank > c->max_rank)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: expected a rank of at most %d (max_lora_rank), found %d",
                      c->name, a->name, c->max_rank, rank);
  out->tensor = a->name;
  out->role = place.role;
  out->layer = place.layer;
  out->rank = rank;
  out->scale = yk_adapter_config_scale(c->numbers, module, rank);
  if (isfinite(out->scale)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: lora_alpha, alpha_pattern: expected a scale within float32 and patterns that match in few "
                    "steps, found others for %s",
                    config_file, module);
}

/* A tensor that is not the A of a module. */
static yk_status check_other(const check *c, const yk_safetensors *file, const yk_tensor *tensor, yk_err *err)
{
  static const struct {
    const char *part, *what;
  } refused[] = {{"lora_magnitude_vector", "DoRA is"},
                 {"lora_embedding_", "adapters of embeddings are"},
                 {"lora_B.bias", "biases of adapters are"}};
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (strstr(tensor->name, refused[i].part))
      return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: %s not supported", c->name, tensor->name,
                        refused[i].what);
  if (!ends_with(tensor->name, suffix_b))
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: tensor %s: expected tensors that end in %s and %s only", c->name,
                      tensor->name, suffix_a, suffix_b);
  if (partner_of(file, tensor, suffix_b, suffix_a)) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: expected a tensor with the same name and %s beside it, found none", c->name,
                    tensor->name, suffix_a);
}

static bool is_repeated(const yk_adapter *adapter, const yk_adapter_module *module)
{
  for (size_t i = 0; i < adapter->n; i++)
    if (adapter->modules[i].layer == module->layer && adapter->modules[i].role == module->role) return true;
  return false;
}

static yk_status read_modules(const check *c, yk_adapter *adapter, yk_err *err)
{
  const size_t n = yk_safetensors_count(adapter->file);
  adapter->modules = calloc(n + 1, sizeof *adapter->modules);
  if (!adapter->modules) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %zu tensors", c->name, n);
  for (size_t i = 0; i < n; i++) {
    const yk_tensor *tensor = yk_safetensors_at(adapter->file, i);
    yk_adapter_module *module = &adapter->modules[adapter->n];
    if (!ends_with(tensor->name, suffix_a)) {
      YK_TRY(check_other(c, adapter->file, tensor, err));
      continue;
    }
    YK_TRY(read_module(c, adapter->file, tensor, module, err));
    if (is_repeated(adapter, module))
      return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected one adapter of each module, found two", c->name,
                        tensor->name);
    adapter->n++;
  }
  if (adapter->n > 0) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT, "%s: expected tensors of adapters, found none", c->name);
}

/* ---- Directory --------------------------------------------------------------------------------------------------- */

enum { NAME_BYTES = 128 };

/* A file's name with its folder's, for errors: a whole path may be longer than a message. */
static void name_file(const char *dir, const char *file, char name[NAME_BYTES])
{
  size_t end = strlen(dir), begin;
  while (end > 1 && dir[end - 1] == '/') end--;
  for (begin = end; begin > 0 && dir[begin - 1] != '/'; begin--) continue;
  const size_t n_bytes = end - begin < 64 ? end - begin : 64;
  snprintf(name, NAME_BYTES, "%.*s/%s", (int)n_bytes, dir + begin, file);
}

static yk_status read_numbers(const char *dir, yk_adapter_config *out, yk_err *err)
{
  char name[NAME_BYTES], *text;
  size_t n_bytes;
  name_file(dir, config_file, name);
  YK_TRY(yk_dir_read(dir, config_file, true, &text, &n_bytes, err));
  yk_status status = yk_adapter_config_parse(name, text, n_bytes, out, err);
  free(text);
  return status;
}

static yk_status open_weights(const char *dir, check *c, yk_adapter *adapter, yk_err *err)
{
  char path[YK_PATH_BYTES], name[NAME_BYTES];
  YK_TRY(yk_dir_path(dir, weights_file, path, err));
  name_file(dir, weights_file, name);
  if (!yk_dir_has(dir, weights_file) && yk_dir_has(dir, "adapter_model.bin"))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: expected %s, found adapter_model.bin, a pickle; save the adapter again with a current PEFT",
                      dir, weights_file);
  YK_TRY(yk_safetensors_open(path, &adapter->file, err));
  c->name = name;
  return read_modules(c, adapter, err);
}

yk_status yk_adapter_open(const char *dir, const yk_model_config *config, int32_t max_rank, yk_adapter **out,
                          yk_err *err)
{
  yk_adapter_config numbers = {0};
  check c = {.config = config, .numbers = &numbers, .max_rank = max_rank};
  *out = NULL;
  yk_adapter *adapter = calloc(1, sizeof *adapter);
  if (!adapter) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for an adapter", dir);
  yk_status status = read_numbers(dir, &numbers, err);
  if (status == YK_OK) status = open_weights(dir, &c, adapter, err);
  yk_adapter_config_free(&numbers);
  if (status != YK_OK) {
    yk_adapter_close(adapter);
    return status;
  }
  *out = adapter;
  return YK_OK;
}

void yk_adapter_close(yk_adapter *adapter)
{
  if (!adapter) return;
  yk_safetensors_close(adapter->file);
  free(adapter->modules);
  free(adapter);
}

yk_status yk_adapter_settle(const yk_adapter *adapter, yk_status status, yk_err *err)
{
  return yk_safetensors_settle(adapter->file, status, err);
}

const yk_adapter_module *yk_adapter_find(const yk_adapter *adapter, yk_model_family family, yk_weight_role role,
                                         int32_t layer)
{
  for (size_t i = 0; i < adapter->n; i++)
    if (adapter->modules[i].layer == layer && yk_weight_share_module(family, adapter->modules[i].role, role))
      return &adapter->modules[i];
  return NULL;
}

float yk_adapter_element(const yk_adapter_matrix *matrix, int64_t row, int64_t column)
{
  uint32_t element = 0;
  const size_t n_bytes = yk_dtype_bytes(matrix->dtype);
  memcpy(&element, (const char *)matrix->data + (size_t)(row * matrix->n_columns + column) * n_bytes, n_bytes);
  return yk_dtype_load(matrix->dtype, &element, 0);
}
