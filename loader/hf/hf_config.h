/* hf_config.h - the configuration of a Hugging Face checkpoint directory, read and validated once.
 *
 * Sources: config.json; generation_config.json if it exists; the quantisation settings in config.json, else in
 * quantize_config.json, quant_config.json or hf_quant_config.json, else in msmodelslim's quant_model_description*.json;
 * modules.json, which sentence-transformers writes for models that make embeddings. Every number is range-checked, so
 * that sizes computed from them (products of any three, times 4 bytes) cannot overflow int64.
 * Defaults of missing keys are those of the transformers configuration classes; keys that determine shapes are
 * required.
 *
 * Errors name file and key, expected and found. Unknown keys are ignored. */
#ifndef YK_LOADER_HF_CONFIG_H
#define YK_LOADER_HF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "loader/hf/config_changes.h"
#include "loader/model/model_config.h"

/* yk_model_config_load - read and validate the files of a directory, with the caller's changes (NULL: none).
 *   On success the caller owns the memory that *out points to: yk_model_config_free. On failure there is nothing to
 *   free.
 *   A sampling default outside its range is clamped, with a warning to log (which may be NULL).
 *   Unsupported features are reported first: the architecture, then the quantisation.
 *   Errors: those of the changes; YK_E_IO (config.json cannot be read), YK_E_FORMAT (malformed, missing key, out of
 *   range, contradiction), YK_E_UNSUPPORTED (architecture, quantisation, rotary type, activation ...: the message lists
 *   the supported values), YK_E_NOMEM. Thread: any. */
yk_status yk_model_config_load(const char *dir, const yk_config_changes *changes, const yk_log *log,
                               yk_model_config *out, yk_err *err);

/* The same from memory; a NULL text stands for a missing file (config is required). */
typedef struct yk_config_texts {
  const char *config, *generation;            /* config.json, generation_config.json */
  const char *quantize, *quantize_file;       /* quantize_config.json or a like file, and its name */
  const char *description, *description_file; /* quant_model_description*.json, and its name */
  const char *modules, *pooling;              /* modules.json, and the config.json of its module that pools */
  size_t config_bytes, generation_bytes, quantize_bytes, description_bytes, modules_bytes, pooling_bytes;
  bool dense_beyond_index;          /* as in yk_config_changes */
  const yk_config_changes *changes; /* which are in the texts; a change that nothing reads is refused. NULL: none */
} yk_config_texts;

yk_status yk_model_config_parse(const yk_config_texts *texts, const yk_log *log, yk_model_config *out, yk_err *err);

/* yk_model_config_free - free the memory allocated by load or parse, but not the struct. */
void yk_model_config_free(yk_model_config *config);

/* yk_model_family_name - the family's model_type in transformers: "llama", "qwen3_moe". */
const char *yk_model_family_name(yk_model_family family);

#endif
