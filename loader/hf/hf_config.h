/* hf_config.h - what a Hugging Face checkpoint directory says about its model, read and validated once.
 *
 * Sources: config.json; generation_config.json where there is one; the quantisation settings in config.json, else in
 * quantize_config.json or quant_config.json, else in msmodelslim's quant_model_description*.json. Every number is
 * range-checked, so that sizes computed from them (products of any three, times 4 bytes) cannot overflow int64.
 * Defaults of absent keys are those of the transformers configuration classes; keys that decide shapes are required.
 *
 * Errors name file and key, what was expected and what was found. Keys that Yoke does not know are ignored. */
#ifndef YK_LOADER_HF_CONFIG_H
#define YK_LOADER_HF_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "base/status.h"
#include "loader/hf/config_changes.h"
#include "loader/model/model_config.h"

/* yk_model_config_load - read and validate the files of a directory, changed as the caller wants (NULL: as they are).
 *   On success the caller owns what *out points to: yk_model_config_free. On failure nothing is left to free.
 *   A sampling default out of its range is taken as the nearest in it, with a warning to log (which may be NULL).
 *   What is not supported comes first: the architecture, then the quantisation.
 *   Errors: those of the changes; YK_E_IO (config.json cannot be read), YK_E_FORMAT (malformed, missing key, out of
 *   range, contradiction),
 *   YK_E_UNSUPPORTED (architecture, quantisation, rotary type, activation ...: the message lists what is supported),
 *   YK_E_NOMEM. Thread: any. */
yk_status yk_model_config_load(const char *dir, const yk_config_changes *changes, const yk_log *log,
                               yk_model_config *out, yk_err *err);

/* The same from memory; a NULL text is a file that does not exist (config must be there). */
typedef struct yk_config_texts {
  const char *config, *generation, *quantize; /* config.json, generation_config.json, quantize_config.json */
  const char *description, *description_file; /* quant_model_description*.json, and its name */
  size_t config_bytes, generation_bytes, quantize_bytes, description_bytes;
} yk_config_texts;

yk_status yk_model_config_parse(const yk_config_texts *texts, const yk_log *log, yk_model_config *out, yk_err *err);

/* yk_model_config_free - what load or parse allocated; the struct itself is the caller's. */
void yk_model_config_free(yk_model_config *config);

/* yk_model_family_name - as transformers' model_type: "llama", "qwen3_moe". */
const char *yk_model_family_name(yk_model_family family);

#endif
