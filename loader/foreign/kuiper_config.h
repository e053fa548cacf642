/* kuiper_config.h - the configuration of a KuiperLLama model file. Not for use outside the loader.
 *
 * The header has fewer settings than config.json. A config.json in the file's folder is the model's configuration, with
 * the quantisation of the file, and must agree with the header. Without config.json, missing settings have Qwen3's
 * values, with Qwen3's two end-of-sequence ids if the vocabulary has them. generation_config.json is used as for
 * safetensors files. */
#ifndef YK_LOADER_KUIPER_CONFIG_H
#define YK_LOADER_KUIPER_CONFIG_H

#include "loader/foreign/kuiper.h"
#include "loader/hf/hf_config.h"

/* yk_kuiper_config_text - the model's config.json, malloc'd; the caller frees it. dir: folder of the file's companions;
 *   NULL: none are used. Errors: YK_E_IO, YK_E_FORMAT (config.json is invalid), YK_E_NOMEM. */
yk_status yk_kuiper_config_text(const yk_kuiper *file, const char *dir, char **text, yk_err *err);

/* yk_kuiper_config_load - the same, read and validated like yk_model_config_load. Errors: those of
 *   yk_model_config_load; YK_E_FORMAT if config.json and the header disagree, naming both numbers. */
yk_status yk_kuiper_config_load(const yk_kuiper *file, const char *dir, const yk_log *log, yk_model_config *out,
                                yk_err *err);

#endif
