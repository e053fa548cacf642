/* vllm_options.h - options of `vllm serve` that Yoke lacks. An option that requests Yoke's fixed behaviour, or that
 * cannot change an answer, is skipped, so that scripts for vLLM work. Other options are refused with a hint. */
#ifndef YK_CLI_VLLM_OPTIONS_H
#define YK_CLI_VLLM_OPTIONS_H

#include "cli/options/options.h"

/* For every command that opens a model; includes the options of the HTTP server. */
extern const yk_foreign_options yk_vllm_options;

#endif
