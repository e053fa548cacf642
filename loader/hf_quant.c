#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "loader/hf_config.h"
#include "loader/hf_parts.h"

/* Two generations of tools wrote two spellings of each key; the newer one first. */
static yk_status get_either(const json_t *object, const char *label, const char *key, const char *old_key, int64_t *out,
                            yk_err *err)
{
  bool use_old = !json_object_get(object, key) && json_object_get(object, old_key);
  return yk_json_get_i64(object, label, use_old ? old_key : key, true, -1, INT32_MAX, out, err);
}

static yk_status read_excluded(const json_t *object, const char *label, yk_quant_config *quant, yk_err *err)
{
  static const char key[] = "modules_to_not_convert";
  const json_t *list = json_object_get(object, key);
  if (!list || json_is_null(list)) return YK_OK;
  if (!json_is_array(list))
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"%s\": expected an array of strings, found %s", label, key,
                      yk_json_type_name(list));
  size_t n = json_array_size(list);
  quant->modules_to_not_convert = calloc(n + 1, sizeof *quant->modules_to_not_convert);
  if (!quant->modules_to_not_convert) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %s", label, key);
  for (size_t i = 0; i < n; i++) {
    const json_t *item = json_array_get(list, i);
    if (!json_is_string(item) || json_string_length(item) == 0)
      return yk_err_set(err, YK_E_FORMAT, "%s: %s[%zu]: expected a module name", label, key, i);
    char *copy = strdup(json_string_value(item));
    if (!copy) return yk_err_set(err, YK_E_NOMEM, "%s: no memory for %s", label, key);
    quant->modules_to_not_convert[i] = copy;
    quant->n_modules_to_not_convert++;
  }
  return YK_OK;
}

static yk_status read_awq(const json_t *object, const char *label, yk_quant_config *quant, yk_err *err)
{
  quant->method = YK_QUANT_AWQ;
  const char *version, *format;
  YK_TRY(yk_json_get_str(object, label, "version", false, &version, err));
  YK_TRY(yk_json_get_str(object, label, "format", false, &format, err));
  if (!version) version = format ? format : "gemm";
  if (strcasecmp(version, "gemm") != 0)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: AWQ version \"%s\" is not supported; supported: gemm", label,
                      version);

  int64_t bits, group_size;
  YK_TRY(get_either(object, label, "bits", "w_bit", &bits, err));
  if (bits != 4)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: AWQ bits %lld is not supported; supported: 4", label,
                      (long long)bits);
  YK_TRY(get_either(object, label, "group_size", "q_group_size", &group_size, err));
  if (group_size != -1 && group_size != 32 && group_size != 64 && group_size != 128)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: AWQ group_size %lld is not supported; supported: 32, 64, 128, -1",
                      label, (long long)group_size);
  bool zero_point = true;
  YK_TRY(yk_json_get_bool(object, label, "zero_point", false, &zero_point, err));
  if (!zero_point)
    return yk_err_set(err, YK_E_UNSUPPORTED, "%s: AWQ zero_point false is not supported; supported: true", label);
  quant->bits = (int32_t)bits;
  quant->group_size = (int32_t)group_size;
  return read_excluded(object, label, quant, err);
}

/* The method by name. Files of their own do not always name it: AWQ's have w_bit or zero_point, GPTQ's desc_act. */
static yk_status find_method(const json_t *object, const char *label, const char **method, yk_err *err)
{
  YK_TRY(yk_json_get_str(object, label, "quant_method", false, method, err));
  if (*method) return YK_OK;
  if (json_object_get(object, "desc_act"))
    *method = "gptq";
  else if (json_object_get(object, "w_bit") || json_object_get(object, "zero_point"))
    *method = "awq";
  else
    return yk_err_set(err, YK_E_FORMAT, "%s: key \"quant_method\" is missing, expected \"awq\"", label);
  return YK_OK;
}

static yk_status read_settings(const json_t *object, const char *label, yk_quant_config *quant, yk_err *err)
{
  if (!json_is_object(object))
    return yk_err_set(err, YK_E_FORMAT, "%s: expected an object, found %s", label, yk_json_type_name(object));
  const char *method;
  YK_TRY(find_method(object, label, &method, err));
  if (strcasecmp(method, "awq") == 0) return read_awq(object, label, quant, err);
  return yk_err_set(err, YK_E_UNSUPPORTED,
                    "%s: quantisation \"%s\" is not supported; supported: awq (4 bits, version gemm), none", label,
                    method);
}

yk_status yk_hf_read_quant(const json_t *root, const char *file, const json_t *separate, const char *separate_file,
                           yk_quant_config *quant, yk_err *err)
{
  *quant = (yk_quant_config){.method = YK_QUANT_NONE};
  const json_t *compression = json_object_get(root, "compression_config");
  if (compression && !json_is_null(compression))
    return yk_err_set(err, YK_E_UNSUPPORTED,
                      "%s: compression_config (compressed-tensors) is not supported; supported: awq, none", file);
  const json_t *object = json_object_get(root, "quantization_config");
  if (object && !json_is_null(object)) return read_settings(object, "config.json: quantization_config", quant, err);
  if (separate) return read_settings(separate, separate_file, quant, err);
  return YK_OK;
}

bool yk_quant_module_excluded(const yk_quant_config *quant, const char *module)
{
  for (int32_t i = 0; i < quant->n_modules_to_not_convert; i++)
    if (strstr(module, quant->modules_to_not_convert[i])) return true;
  return false;
}
