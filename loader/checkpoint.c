#include "loader/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "loader/dir.h"
#include "loader/other_formats.h"
#include "loader/remarks.h"
#include "loader/shards.h"

enum { TENSOR_NAME_BYTES = 256, SHAPE_TEXT_BYTES = 64 };

struct yk_checkpoint {
  yk_model_config config;
  yk_shards *shards; /* NULL where there are no weights, for sizes alone */
};

static const yk_tensor *find_part(const yk_checkpoint *checkpoint, const char *module, const char *suffix,
                                  const char **file)
{
  char name[TENSOR_NAME_BYTES];
  int n = snprintf(name, sizeof name, "%s.%s", module, suffix);
  return n > 0 && n < (int)sizeof name ? yk_shards_find(checkpoint->shards, name, file) : NULL;
}

static void format_shape(const int64_t *shape, int32_t n_dims, char out[SHAPE_TEXT_BYTES])
{
  size_t used = (size_t)snprintf(out, SHAPE_TEXT_BYTES, "[");
  for (int32_t i = 0; i < n_dims && used < SHAPE_TEXT_BYTES; i++)
    used += (size_t)snprintf(out + used, SHAPE_TEXT_BYTES - used, "%s%" PRId64, i ? ", " : "", shape[i]);
  if (used < SHAPE_TEXT_BYTES) snprintf(out + used, SHAPE_TEXT_BYTES - used, "]");
}

static bool is_float(yk_tensor_dtype dtype, yk_dtype *out)
{
  switch (dtype) {
  case YK_TENSOR_F16: *out = YK_F16; return true;
  case YK_TENSOR_BF16: *out = YK_BF16; return true;
  case YK_TENSOR_F32: *out = YK_F32; return true;
  default: return false;
  }
}

/* A tensor of module with this type and shape. float_dtype NULL: 32-bit words, else one of our float types. */
static yk_status require_part(const yk_checkpoint *checkpoint, const char *module, const char *suffix, int32_t n_dims,
                              int64_t dim0, int64_t dim1, yk_dtype *float_dtype, const void **data, yk_err *err)
{
  int64_t shape[2] = {dim0, dim1};
  char expected[SHAPE_TEXT_BYTES], found[SHAPE_TEXT_BYTES];
  const char *types = float_dtype ? "F16, BF16 or F32" : "I32", *file;
  format_shape(shape, n_dims, expected);
  const yk_tensor *tensor = find_part(checkpoint, module, suffix, &file);
  if (!tensor)
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s.%s is missing, expected %s %s",
                      yk_shards_source(checkpoint->shards), module, suffix, types, expected);
  bool type_fits = float_dtype ? is_float(tensor->dtype, float_dtype) : tensor->dtype == YK_TENSOR_I32;
  bool shape_fits = tensor->n_dims == n_dims && memcmp(tensor->shape, shape, (size_t)n_dims * sizeof *shape) == 0;
  if (!type_fits || !shape_fits) {
    format_shape(tensor->shape, tensor->n_dims, found);
    return yk_err_set(err, YK_E_FORMAT, "%s: tensor %s: expected %s %s, found %s %s", file, tensor->name, types,
                      expected, yk_tensor_dtype_name(tensor->dtype), found);
  }
  *data = tensor->data;
  return YK_OK;
}

/* Format and group of an AWQ layer of view's k and n. */
static yk_status begin_awq(const yk_checkpoint *checkpoint, const char *module, yk_weight_view *view, yk_err *err)
{
  const yk_quant_config *quant = &checkpoint->config.quant;
  view->format = YK_WEIGHT_AWQ;
  view->group = quant->group_size == -1 ? view->k : quant->group_size;
  if (view->k % view->group != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %" PRId64 " inputs: expected a multiple of group_size %" PRId64, module,
                      view->k, view->group);
  if (view->n % 8 != 0)
    return yk_err_set(err, YK_E_FORMAT, "%s: %" PRId64 " outputs: expected a multiple of 8 (AWQ packs 8 columns)",
                      module, view->n);
  return YK_OK;
}

static yk_status read_awq(const yk_checkpoint *checkpoint, const char *module, yk_weight_view *view, yk_err *err)
{
  if (checkpoint->config.quant.method != YK_QUANT_AWQ)
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: tensor %s.qweight is quantised, but config.json has no quantization_config",
                      yk_shards_source(checkpoint->shards), module);
  YK_TRY(begin_awq(checkpoint, module, view, err));
  int64_t n_groups = view->k / view->group, n_words = view->n / 8;
  YK_TRY(require_part(checkpoint, module, "qweight", 2, view->k, n_words, NULL, &view->qweight, err));
  YK_TRY(require_part(checkpoint, module, "qzeros", 2, n_groups, n_words, NULL, &view->qzeros, err));
  return require_part(checkpoint, module, "scales", 2, n_groups, view->n, &view->dtype, &view->scales, err);
}

yk_status yk_checkpoint_matrix(const yk_checkpoint *checkpoint, const char *module, int64_t n_rows, int64_t n_columns,
                               yk_weight_view *out, yk_err *err)
{
  yk_weight_view view = {.format = YK_WEIGHT_PLAIN, .k = n_columns, .n = n_rows, .dtype = checkpoint->config.dtype};
  if (checkpoint->shards)
    YK_TRY(require_part(checkpoint, module, "weight", 2, n_rows, n_columns, &view.dtype, &view.plain, err));
  *out = view;
  return YK_OK;
}

/* What the configuration says of a layer whose weights are not there. AWQ leaves lm_head as it is. */
static yk_status assume_linear(const yk_checkpoint *checkpoint, const char *module, yk_weight_view *view, yk_err *err)
{
  const yk_model_config *config = &checkpoint->config;
  char lm_head[YK_WEIGHT_NAME_BYTES];
  yk_weight_name(YK_ROLE_LM_HEAD, 0, lm_head);
  view->dtype = view->bias_dtype = config->dtype;
  view->format = YK_WEIGHT_PLAIN;
  if (config->quant.method == YK_QUANT_NONE || strcmp(module, lm_head) == 0 ||
      yk_quant_module_excluded(&config->quant, module))
    return YK_OK;
  return begin_awq(checkpoint, module, view, err);
}

yk_status yk_checkpoint_linear(const yk_checkpoint *checkpoint, const char *module, int64_t k, int64_t n, bool has_bias,
                               yk_weight_view *out, yk_err *err)
{
  yk_weight_view view = {.k = k, .n = n};
  if (!checkpoint->shards) {
    YK_TRY(assume_linear(checkpoint, module, &view, err));
    *out = view;
    return YK_OK;
  }
  bool quantised = find_part(checkpoint, module, "qweight", NULL) != NULL;
  bool plain = find_part(checkpoint, module, "weight", NULL) != NULL;
  const char *source = yk_shards_source(checkpoint->shards);
  if (quantised && plain)
    return yk_err_set(err, YK_E_FORMAT, "%s: expected one of %s.weight and %s.qweight, found both", source, module,
                      module);
  if (!quantised && !plain)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: tensor %s.weight (or .qweight) is missing, expected [%" PRId64 ", %" PRId64 "]", source,
                      module, n, k);
  if (quantised)
    YK_TRY(read_awq(checkpoint, module, &view, err));
  else
    YK_TRY(yk_checkpoint_matrix(checkpoint, module, n, k, &view, err));
  if (has_bias) YK_TRY(require_part(checkpoint, module, "bias", 1, n, 0, &view.bias_dtype, &view.bias, err));
  *out = view;
  return YK_OK;
}

yk_status yk_checkpoint_vector(const yk_checkpoint *checkpoint, const char *module, int64_t n, yk_vector_view *out,
                               yk_err *err)
{
  yk_vector_view view = {.n = n, .dtype = checkpoint->config.dtype};
  if (checkpoint->shards) YK_TRY(require_part(checkpoint, module, "weight", 1, n, 0, &view.dtype, &view.data, err));
  *out = view;
  return YK_OK;
}

const yk_model_config *yk_checkpoint_config(const yk_checkpoint *checkpoint)
{
  return &checkpoint->config;
}

bool yk_checkpoint_has_weights(const yk_checkpoint *checkpoint)
{
  return checkpoint->shards != NULL;
}

/* What is not supported comes before what is missing: a configuration names it better than files that are not there.
 * Without a configuration the weights' own format does.                                                              */
static yk_status read_config(const char *dir, const yk_log *log, yk_checkpoint *checkpoint, yk_err *err)
{
  YK_TRY(yk_other_formats_check_path(dir, err));
  if (!yk_dir_has(dir, "config.json")) YK_TRY(yk_other_formats_check_dir(dir, err));
  return yk_model_config_load(dir, log, &checkpoint->config, err);
}

static yk_status read_weights(const char *dir, const yk_log *log, yk_checkpoint *checkpoint, yk_err *err)
{
  YK_TRY(yk_shards_open(dir, log, &checkpoint->shards, err));
  return yk_remarks_write(&checkpoint->config, checkpoint->shards, log, err);
}

static yk_status open_dir(const char *dir, const yk_log *log, bool weights_may_lack, yk_checkpoint **out, yk_err *err)
{
  char found[256];
  yk_checkpoint *checkpoint = calloc(1, sizeof *checkpoint);
  if (!checkpoint) return yk_err_set(err, YK_E_NOMEM, "%s: no memory", dir);
  yk_status status = read_config(dir, log, checkpoint, err);
  if (status == YK_OK) {
    bool lacks = weights_may_lack && !yk_dir_find_suffix(dir, ".safetensors", found);
    status = lacks ? yk_other_formats_check_dir(dir, err) : read_weights(dir, log, checkpoint, err);
  }
  if (status != YK_OK) {
    yk_checkpoint_close(checkpoint);
    return status;
  }
  *out = checkpoint;
  return YK_OK;
}

yk_status yk_checkpoint_open(const char *dir, const yk_log *log, yk_checkpoint **out, yk_err *err)
{
  return open_dir(dir, log, false, out, err);
}

yk_status yk_checkpoint_open_for_sizes(const char *dir, const yk_log *log, yk_checkpoint **out, yk_err *err)
{
  return open_dir(dir, log, true, out, err);
}

void yk_checkpoint_close(yk_checkpoint *checkpoint)
{
  if (!checkpoint) return;
  yk_model_config_free(&checkpoint->config);
  yk_shards_close(checkpoint->shards);
  free(checkpoint);
}

static void prefetch(const void *data, int64_t n_bytes)
{
  if (!data || n_bytes <= 0) return;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
  uintptr_t begin = (uintptr_t)data / page * page, end = (uintptr_t)data + (uintptr_t)n_bytes;
  madvise((void *)begin, end - begin, MADV_WILLNEED);
}

void yk_checkpoint_prefetch(const yk_weight_view *weight)
{
  int64_t element_bytes = (int64_t)yk_dtype_bytes(weight->dtype);
  if (weight->format == YK_WEIGHT_PLAIN) {
    prefetch(weight->plain, weight->k * weight->n * element_bytes);
    return;
  }
  int64_t n_groups = weight->k / weight->group;
  prefetch(weight->qweight, weight->k * weight->n / 2);
  prefetch(weight->qzeros, n_groups * weight->n / 2);
  prefetch(weight->scales, n_groups * weight->n * element_bytes);
}
