/* adapter_options.h - options of low-rank adapters (LoRA), named as vLLM's. */
#ifndef YK_CLI_ADAPTER_OPTIONS_H
#define YK_CLI_ADAPTER_OPTIONS_H

#include "cli/options/options.h"
#include "yoke/yoke.h"

enum { YK_ADAPTER_OPTIONS = 4 };

typedef struct yk_adapter_options {
  bool is_enabled;
  int32_t most, max_rank; /* most: 0: as many as are named, at least 1 */
  yk_adapter_path *items; /* [n] owned, with their texts */
  size_t n;
} yk_adapter_options;

/* yk_adapter_options_init - no adapters. Free with yk_adapter_options_free. */
void yk_adapter_options_init(yk_adapter_options *options);
void yk_adapter_options_free(yk_adapter_options *options);

/* yk_adapter_options_fill - the rows [YK_ADAPTER_OPTIONS] of the table, which store into *options. */
void yk_adapter_options_fill(yk_adapter_options *options, yk_option *rows);

/* yk_adapter_options_apply - store the adapters in *engine, which then points into *options. Errors: YK_E_INVAL:
 *   adapters without --enable-lora. */
yk_status yk_adapter_options_apply(const yk_adapter_options *options, yk_engine_options *engine, yk_err *err);

/* yk_adapter_options_check_name - the name of --adapter must be NULL or that of an adapter. Errors: YK_E_INVAL. */
yk_status yk_adapter_options_check_name(const yk_adapter_options *options, const char *name, yk_err *err);

/* yk_adapter_options_has - whether an adapter has this name, which may be NULL. */
bool yk_adapter_options_has(const yk_adapter_options *options, const char *name);

#endif
