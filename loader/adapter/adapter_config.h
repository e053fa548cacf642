/* adapter_config.h - adapter_config.json of a PEFT directory: the numbers that decide a low-rank adapter's arithmetic.
 * Not for use outside loader/adapter.
 *
 * Keys that select unsupported arithmetic are refused by name. The modules that the adapter changes follow from its
 * tensors, so target_modules, exclude_modules and layers_to_transform are only checked for their types. */
#ifndef YK_LOADER_ADAPTER_CONFIG_H
#define YK_LOADER_ADAPTER_CONFIG_H

#include "base/json.h"
#include "loader/adapter/patterns.h"

enum { YK_ADAPTER_MAX_RANK = 1024 };

typedef struct yk_adapter_config {
  int32_t rank;              /* 1 to YK_ADAPTER_MAX_RANK */
  double alpha;              /* finite */
  bool scales_by_root;       /* rsLoRA: the scale is alpha / sqrt(rank), else alpha / rank */
  yk_patterns ranks, alphas; /* of modules that differ from rank and alpha */
} yk_adapter_config;

/* yk_adapter_config_parse - read the text [n_bytes] of a configuration; name: in errors. Free with
 *   yk_adapter_config_free, after an error too. Errors: YK_E_FORMAT (a value of a wrong type or range),
 *   YK_E_UNSUPPORTED (a value that is not computed), both naming the key; YK_E_NOMEM. Thread: any. */
yk_status yk_adapter_config_parse(const char *name, const char *text, size_t n_bytes, yk_adapter_config *out,
                                  yk_err *err);
void yk_adapter_config_free(yk_adapter_config *config);

/* yk_adapter_config_scale - the factor of the product of a module's two matrices; not finite: alpha / rank exceeds
 *   float32, or a pattern of alpha_pattern is too costly. */
float yk_adapter_config_scale(const yk_adapter_config *config, const char *module, int32_t rank);

/* yk_adapter_config_rank - the rank that the configuration gives a module; 0: it is not an integer of 1 to
 *   YK_ADAPTER_MAX_RANK, or a pattern of rank_pattern is too costly. */
int32_t yk_adapter_config_rank(const yk_adapter_config *config, const char *module);

#endif
