/* hf_config_files.c - reads the files of a checkpoint's directory that describe the model. */
#include <stdio.h>
#include <stdlib.h>

#include "loader/hf/hf_config.h"
#include "loader/hf/hf_parts.h"
#include "loader/safetensors/dir.h"

static const char config_file[] = "config.json", generation_file[] = "generation_config.json";
static const char modules_file[] = "modules.json";
static const char *const quantize_files[] = {"quantize_config.json", "quant_config.json", "hf_quant_config.json"};

/* Read msmodelslim's description of quantised tensors; name is empty if there is none. */
static yk_status read_description(const char *dir, char name[256], char **text, size_t *n_bytes, yk_err *err)
{
  char last[256];
  int n = yk_dir_find_all(dir, YK_DESCRIPTION_PREFIX, YK_DESCRIPTION_SUFFIX, name, last);
  if (n > 1)
    return yk_err_set(err, YK_E_FORMAT,
                      "%s: expected one file " YK_DESCRIPTION_PREFIX "*" YK_DESCRIPTION_SUFFIX ", found %s and %s", dir,
                      name, last);
  return n == 1 ? yk_dir_read(dir, name, true, text, n_bytes, err) : YK_OK;
}

static yk_status read_generation(const char *dir, const yk_config_changes *changes, char **text, size_t *n_bytes,
                                 yk_err *err)
{
  const char *other = changes ? changes->generation_dir : NULL;
  YK_TRY(yk_dir_read(other ? other : dir, generation_file, other != NULL, text, n_bytes, err));
  return changes ? yk_config_changes_apply_generation(changes, text, n_bytes, err) : YK_OK;
}

/* The texts of modules.json and of the configuration that it names; each is NULL if there is no such file. */
static yk_status read_modules(const char *dir, char **modules, char **pooling, yk_config_texts *texts, yk_err *err)
{
  char folder[YK_POOLING_FOLDER_BYTES], name[YK_POOLING_FOLDER_BYTES + sizeof "/config.json"];
  yk_json_doc *parsed;
  YK_TRY(yk_dir_read(dir, modules_file, false, modules, &texts->modules_bytes, err));
  if (!*modules) return YK_OK;
  YK_TRY(yk_json_parse(modules_file, *modules, texts->modules_bytes, NULL, &parsed, err));
  bool is_found = yk_hf_find_pooling(yk_json_root(parsed), folder);
  yk_json_free(parsed);
  if (!is_found) return YK_OK;
  snprintf(name, sizeof name, "%s/config.json", folder);
  return yk_dir_read(dir, name, false, pooling, &texts->pooling_bytes, err);
}

yk_status yk_model_config_load(const char *dir, const yk_config_changes *changes, const yk_log *log,
                               yk_model_config *out, yk_err *err)
{
  char *config = NULL, *generation = NULL, *quantize = NULL, *description = NULL, description_name[256] = "";
  char *modules = NULL, *pooling = NULL;
  yk_config_texts texts = {.description_file = description_name,
                           .changes = changes,
                           .dense_beyond_index = changes && changes->dense_beyond_index};
  yk_status status = yk_dir_read(dir, config_file, true, &config, &texts.config_bytes, err);
  if (status == YK_OK) status = read_generation(dir, changes, &generation, &texts.generation_bytes, err);
  if (status == YK_OK && changes) status = yk_config_changes_apply_config(changes, &config, &texts.config_bytes, err);
  for (int i = 0; i < 3 && status == YK_OK && !quantize; i++) {
    texts.quantize_file = quantize_files[i];
    status = yk_dir_read(dir, quantize_files[i], false, &quantize, &texts.quantize_bytes, err);
  }
  if (status == YK_OK) status = read_description(dir, description_name, &description, &texts.description_bytes, err);
  if (status == YK_OK) status = read_modules(dir, &modules, &pooling, &texts, err);
  texts.config = config;
  texts.generation = generation;
  texts.quantize = quantize;
  texts.description = description;
  texts.modules = modules;
  texts.pooling = pooling;
  if (status == YK_OK) status = yk_model_config_parse(&texts, log, out, err);
  free(config);
  free(generation);
  free(quantize);
  free(description);
  free(modules);
  free(pooling);
  return status;
}
