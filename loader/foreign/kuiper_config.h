/* kuiper_config.h - the configuration of a KuiperLLama model file. Not for use outside the loader.
 *
 * The header says less than config.json does: where one lies beside the file it is the model's, with the quantisation
 * of the file, and must agree with the header; without one the rest is Qwen3's, and its two end-of-sequence ids where
 * the vocabulary has them. generation_config.json counts as it does beside safetensors files. */
#ifndef YK_LOADER_KUIPER_CONFIG_H
#define YK_LOADER_KUIPER_CONFIG_H

#include "loader/foreign/kuiper.h"
#include "loader/hf/hf_config.h"

/* yk_kuiper_config_text - the model's config.json, malloc'd and the caller's. dir: of the files beside it; NULL: none
 *   count. Errors: YK_E_IO, YK_E_FORMAT (a config.json that is none), YK_E_NOMEM. */
yk_status yk_kuiper_config_text(const yk_kuiper *file, const char *dir, char **text, yk_err *err);

/* yk_kuiper_config_load - the same, read and validated as yk_model_config_load does. Errors: its own; YK_E_FORMAT where
 *   config.json and the header disagree, naming both numbers. */
yk_status yk_kuiper_config_load(const yk_kuiper *file, const char *dir, const yk_log *log, yk_model_config *out,
                                yk_err *err);

#endif
