#include "loader/fused_experts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "loader/model/quant_rules.h"
#include "loader/model/weight_modules.h"

enum { NAME_BYTES = YK_WEIGHT_NAME_BYTES + 32, MAX_PIECES = 2, N_KINDS = 2 };

/* A fused tensor's name after its layer, and the roles of the rows of each expert in it. */
typedef struct fused_kind {
  const char *name;
  yk_weight_role roles[MAX_PIECES];
  int n_roles;
} fused_kind;

/* The name of the router in files with fused experts, for every family. */
static const fused_kind router_kind = {"mlp.gate", {YK_ROLE_ROUTER}, 1};

/* The suffix after that name, and the suffix of a single expert's tensor. */
typedef struct fused_suffix {
  const char *fused, *single;
  bool is_transposed; /* [experts, inputs, outputs] */
} fused_suffix;

static const fused_suffix common_suffixes[] = {{"", "weight", false},
                                               {".weight", "weight", false},
                                               {"_packed", "weight_packed", false},
                                               {"_scale", "weight_scale", false},
                                               {"_global_scale", "weight_global_scale", false},
                                               {"_scale_inv", "weight_scale_inv", false},
                                               {"_zero_point", "weight_zero_point", false},
                                               {"", NULL, false}}; /* the end */

static const fused_suffix gpt_oss_suffixes[] = {{"_blocks", "weight_packed", false},
                                                {"_scales", "weight_scale", false},
                                                {"_bias", "bias", false},
                                                {"", "weight", true},
                                                {"", NULL, false}};

/* How a family's files fuse experts. */
typedef struct fused_form {
  fused_kind kinds[N_KINDS];
  const fused_suffix *suffixes;
} fused_form;

static const fused_form common_form = {{{"mlp.experts.gate_up_proj", {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP}, 2},
                                        {"mlp.experts.down_proj", {YK_ROLE_EXPERT_DOWN}, 1}},
                                       common_suffixes};

static const fused_form granite_form = {{{"block_sparse_moe.input_linear", {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP}, 2},
                                         {"block_sparse_moe.output_linear", {YK_ROLE_EXPERT_DOWN}, 1}},
                                        common_suffixes};

/* gpt-oss: each expert's gate and up stay one module, with interleaved outputs (yk_experts_config.is_interleaved). */
static const fused_form gpt_oss_form = {
    {{"mlp.experts.gate_up_proj", {YK_ROLE_EXPERT_GATE}, 1}, {"mlp.experts.down_proj", {YK_ROLE_EXPERT_DOWN}, 1}},
    gpt_oss_suffixes};

static const fused_suffix transposed_suffixes[] = {{"", "weight", true}, {"", NULL, false}};

static const fused_form llama4_form = {
    {{"feed_forward.experts.gate_up_proj", {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP}, 2},
     {"feed_forward.experts.down_proj", {YK_ROLE_EXPERT_DOWN}, 1}},
    transposed_suffixes};

/* Nemotron-3: experts without a gate, as the class holds them. */
static const fused_form nemotron_form = {
    {{"mixer.experts.up_proj", {YK_ROLE_EXPERT_UP}, 1}, {"mixer.experts.down_proj", {YK_ROLE_EXPERT_DOWN}, 1}},
    common_suffixes};

static const fused_form gemma4_form = {{{"experts.gate_up_proj", {YK_ROLE_EXPERT_GATE, YK_ROLE_EXPERT_UP}, 2},
                                        {"experts.down_proj", {YK_ROLE_EXPERT_DOWN}, 1}},
                                       common_suffixes};

static const fused_form *form_of(yk_model_family family)
{
  switch (family) {
  case YK_FAMILY_GPT_OSS: return &gpt_oss_form;
  case YK_FAMILY_GRANITE_MOE:
  case YK_FAMILY_GRANITE_HYBRID: return &granite_form;
  case YK_FAMILY_NEMOTRON_H: return &nemotron_form;
  case YK_FAMILY_LLAMA4:
  case YK_FAMILY_LLAMA4_VL: return &llama4_form;
  case YK_FAMILY_GEMMA4:
  case YK_FAMILY_GEMMA4_VL: return &gemma4_form;
  default: return &common_form;
  }
}

typedef struct fused_tensor {
  const yk_tensor *tensor;
  const char *file; /* name of the file, for messages */
  size_t position;  /* in the table of tensors */
  int32_t layer;
  const fused_kind *kind;
  const char *suffix; /* suffix of a single expert's tensor */
  bool is_transposed;
} fused_tensor;

typedef struct pieces {
  yk_tensor *tensors;
  size_t *origins;
  char *names;     /* [n_tensors, NAME_BYTES] */
  int64_t *shapes; /* pairs: contents of weight_shape for packed weights */
  size_t n, n_shapes;
} pieces;

/* The name of a fused tensor without its suffix. Returns the number of bytes. */
static int name_fused(const yk_model_config *config, int32_t layer, const fused_kind *kind, char out[NAME_BYTES])
{
  char prefix[YK_WEIGHT_NAME_BYTES];
  yk_weight_layer_prefix(config, prefix);
  return snprintf(out, NAME_BYTES, "%s%d.%s", prefix, layer, kind->name);
}

/* Whether the tensor is a router's weight under another name than the family's. */
static bool is_renamed_router(const yk_model_config *config, const yk_tensor *tensor, int32_t layer)
{
  char name[NAME_BYTES], of_family[YK_WEIGHT_NAME_BYTES];
  name_fused(config, layer, &router_kind, name);
  strncat(name, ".weight", sizeof name - strlen(name) - 1);
  if (strcmp(tensor->name, name) != 0) return false;
  yk_weight_name(config, YK_ROLE_ROUTER, layer, of_family);
  return strncmp(name, of_family, strlen(of_family)) != 0;
}

/* Fills *out and returns true if the tensor is fused or a renamed router. */
static bool find_fused(const yk_model_config *config, const yk_tensor *tensor, fused_tensor *out)
{
  char prefix[NAME_BYTES];
  out->layer = yk_weight_layer(config, tensor->name);
  if (out->layer < 0 || out->layer >= config->n_layers || !config->experts.layers[out->layer]) return false;
  if (is_renamed_router(config, tensor, out->layer)) {
    *out = (fused_tensor){.tensor = tensor, .layer = out->layer, .kind = &router_kind, .suffix = "weight"};
    return true;
  }
  const fused_form *form = form_of(config->family);
  for (int k = 0; k < N_KINDS; k++) {
    const fused_kind *kind = &form->kinds[k];
    int n = name_fused(config, out->layer, kind, prefix);
    if (strncmp(tensor->name, prefix, (size_t)n) != 0) continue;
    for (const fused_suffix *suffix = form->suffixes; suffix->single; suffix++) {
      if (strcmp(tensor->name + n, suffix->fused) != 0) continue;
      out->tensor = tensor;
      out->kind = kind;
      out->suffix = suffix->single;
      out->is_transposed = suffix->is_transposed;
      return true;
    }
  }
  return false;
}

/* With scales per block of outputs, no block may contain rows of both gate and up. */
static yk_status check_blocks(const yk_model_config *config, const fused_tensor *f, yk_err *err)
{
  const yk_quant_scheme *scheme;
  char module[YK_WEIGHT_NAME_BYTES];
  int64_t n = config->experts.ffn_size;
  bool is_scale = strcmp(f->suffix, "weight_scale") == 0 || strcmp(f->suffix, "weight_scale_inv") == 0;
  if (!is_scale || f->kind->n_roles == 1 || f->tensor->shape[1] == 2 * n) return YK_OK;
  yk_weight_name(config, f->kind->roles[0], f->layer, module);
  YK_TRY(yk_quant_scheme_of(&config->quant, module, &scheme, err));
  if (!scheme || scheme->group_outputs < 1 || n % scheme->group_outputs == 0) return YK_OK;
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: tensor %s: scales of %d outputs over %" PRId64 " of gate and of up: expected a multiple",
                    f->file, f->tensor->name, scheme->group_outputs, n);
}

static yk_status check_transposed(const fused_tensor *f, yk_err *err)
{
  const yk_tensor *t = f->tensor;
  const bool is_float = t->dtype == YK_TENSOR_F16 || t->dtype == YK_TENSOR_BF16 || t->dtype == YK_TENSOR_F32;
  if (!is_float)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: tensor %s: quantised experts in one transposed tensor are not supported; supported: experts "
                      "one by one (experts.0.gate_proj ...)",
                      f->file, t->name);
  if (t->n_dims == 3 && t->shape[2] > 0 && t->shape[2] % f->kind->n_roles == 0) return YK_OK;
  return yk_err_set(err, YK_E_FORMAT,
                    "%s: tensor %s: expected [experts, inputs, outputs], with outputs of gate and up in equal numbers",
                    f->file, t->name);
}

static yk_status check(const yk_model_config *config, const fused_tensor *f, yk_err *err)
{
  const yk_tensor *t = f->tensor;
  if (f->kind == &router_kind) return YK_OK;
  if (t->n_dims < 1 || t->shape[0] != config->experts.n_experts)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected %d experts, found %" PRId64, f->file, t->name,
                      config->experts.n_experts, t->n_dims < 1 ? 0 : t->shape[0]);
  if (f->is_transposed) return check_transposed(f, err);
  bool is_one = t->n_dims == 1 || (t->n_dims == 2 && t->shape[1] == 1);
  if (is_one) return YK_OK;
  bool has_blocks = t->n_dims == 4 && config->family == YK_FAMILY_GPT_OSS; /* the last two are the bytes of a row */
  if ((t->n_dims > 3 && !has_blocks) || t->shape[1] < 1 || t->shape[1] % f->kind->n_roles != 0)
    return yk_err_set(
        err, YK_E_FORMAT,
        "%s: tensor %s: expected three dimensions, and rows of gate and up in equal numbers, found %d and "
        "%" PRId64 " rows",
        f->file, t->name, (int)t->n_dims, t->shape[1]);
  return check_blocks(config, f, err);
}

/* The outputs of a role are columns of each expert's matrix [inputs, outputs]. */
static void add_columns(const yk_model_config *config, const fused_tensor *f, int32_t expert, int role, pieces *out)
{
  const yk_tensor *t = f->tensor;
  const int64_t n_inputs = t->shape[1], n_outputs = t->shape[2] / f->kind->n_roles;
  const uint64_t of_expert = t->n_bytes / (uint64_t)t->shape[0], n_bytes = of_expert / (uint64_t)f->kind->n_roles;
  char module[YK_WEIGHT_NAME_BYTES], *name = out->names + out->n * NAME_BYTES;
  yk_weight_name_of_expert(config, f->kind->roles[role], f->layer, expert, module);
  snprintf(name, NAME_BYTES, "%s.%s", module, f->suffix);
  const uint64_t row_bytes = n_inputs > 0 ? n_bytes / (uint64_t)n_inputs : 0; /* of the role */
  out->tensors[out->n] =
      (yk_tensor){.name = name,
                  .dtype = t->dtype,
                  .n_dims = 2,
                  .shape = {n_outputs, n_inputs},
                  .data = (const char *)t->data + (uint64_t)expert * of_expert + (uint64_t)role * row_bytes,
                  .n_bytes = n_bytes,
                  .column_stride = t->shape[2]};
  out->origins[out->n++] = f->position;
}

static void add_piece(const yk_model_config *config, const fused_tensor *f, int32_t expert, int role, pieces *out)
{
  const yk_tensor *t = f->tensor;
  char module[YK_WEIGHT_NAME_BYTES], *name = out->names + out->n * NAME_BYTES;
  yk_tensor *piece = &out->tensors[out->n];
  bool is_one = t->n_dims == 1 || (t->n_dims == 2 && t->shape[1] == 1);
  int n_parts = is_one ? 1 : f->kind->n_roles;
  yk_weight_name_of_expert(config, f->kind->roles[role], f->layer, expert, module);
  snprintf(name, NAME_BYTES, "%s.%s", module, f->suffix);
  uint64_t n_bytes = t->n_bytes / (uint64_t)t->shape[0] / (uint64_t)n_parts;
  *piece = (yk_tensor){.name = name, .dtype = t->dtype, .n_dims = t->n_dims - 1, .n_bytes = n_bytes};
  for (int d = 1; d < t->n_dims; d++) piece->shape[d - 1] = d == 1 ? t->shape[d] / n_parts : t->shape[d];
  if (piece->n_dims == 3) {
    piece->n_dims = 2;
    piece->shape[1] *= piece->shape[2];
  }
  uint64_t index = (uint64_t)expert * (uint64_t)n_parts + (uint64_t)(is_one ? 0 : role);
  piece->data = (const char *)t->data + index * n_bytes;
  out->origins[out->n++] = f->position;
}

/* Add the shape tensor that packed weights need. */
static void add_shape(const yk_model_config *config, const fused_tensor *f, int32_t expert, int role, pieces *out)
{
  const yk_weight_module module = yk_weight_module_of(config, f->kind->roles[role], f->layer);
  char name[YK_WEIGHT_NAME_BYTES];
  int64_t *shape = out->shapes + 2 * out->n_shapes++;
  yk_weight_name_of_expert(config, f->kind->roles[role], f->layer, expert, name);
  snprintf(out->names + out->n * NAME_BYTES, NAME_BYTES, "%s.weight_shape", name);
  shape[0] = module.n;
  shape[1] = module.k;
  out->tensors[out->n] = (yk_tensor){.name = out->names + out->n * NAME_BYTES,
                                     .dtype = YK_TENSOR_I64,
                                     .n_dims = 1,
                                     .shape = {2},
                                     .data = shape,
                                     .n_bytes = 2 * sizeof *shape};
  out->origins[out->n++] = f->position;
}

static void add_router(const yk_model_config *config, const fused_tensor *f, pieces *out)
{
  char module[YK_WEIGHT_NAME_BYTES], *name = out->names + out->n * NAME_BYTES;
  yk_weight_name(config, YK_ROLE_ROUTER, f->layer, module);
  snprintf(name, NAME_BYTES, "%s.%s", module, f->suffix);
  out->tensors[out->n] = *f->tensor;
  out->tensors[out->n].name = name;
  out->origins[out->n++] = f->position;
}

static void add_pieces(const yk_model_config *config, const fused_tensor *f, pieces *out)
{
  if (f->kind == &router_kind) {
    add_router(config, f, out);
    return;
  }
  for (int32_t expert = 0; expert < config->experts.n_experts; expert++)
    for (int role = 0; role < f->kind->n_roles; role++) {
      if (f->is_transposed) {
        add_columns(config, f, expert, role, out);
        continue;
      }
      add_piece(config, f, expert, role, out);
      if (strcmp(f->suffix, "weight_packed") == 0 && config->family != YK_FAMILY_GPT_OSS)
        add_shape(config, f, expert, role, out);
    }
}

/* Allocate memory for twice MAX_PIECES pieces of each expert of n_fused tensors, in one block that starts with
 * tensors. */
static yk_status reserve(const yk_model_config *config, size_t n_fused, pieces *out, yk_err *err)
{
  size_t n = n_fused * (size_t)config->experts.n_experts * 2 * MAX_PIECES;
  size_t piece_bytes = sizeof *out->tensors + 2 * sizeof *out->shapes + sizeof *out->origins + NAME_BYTES;
  char *memory = malloc(n * piece_bytes);
  if (!memory) return yk_err_set(err, YK_E_NOMEM, "no memory for the tensors of %zu experts", n);
  *out = (pieces){.tensors = (yk_tensor *)(void *)memory};
  out->shapes = (int64_t *)(void *)(memory + n * sizeof *out->tensors);
  out->origins = (size_t *)(void *)(out->shapes + 2 * n);
  out->names = (char *)(out->origins + n);
  return YK_OK;
}

yk_status yk_fused_experts_split(const yk_model_config *config, yk_shards *shards, yk_err *err)
{
  fused_tensor f;
  pieces found;
  size_t n_fused = 0, n_tensors = yk_shards_count(shards);
  if (config->experts.n_experts == 0) return YK_OK;
  for (size_t i = 0; i < n_tensors; i++) {
    if (!find_fused(config, yk_shards_at(shards, i), &f)) continue;
    yk_shards_find(shards, f.tensor->name, &f.file);
    YK_TRY(check(config, &f, err));
    n_fused++;
  }
  if (n_fused == 0) return YK_OK;
  YK_TRY(reserve(config, n_fused, &found, err));
  for (size_t i = 0; i < n_tensors; i++) {
    if (!find_fused(config, yk_shards_at(shards, i), &f)) continue;
    f.position = i;
    add_pieces(config, &f, &found);
  }
  return yk_shards_replace(shards, found.tensors, found.origins, found.n, err);
}
