/* vllm_options.h - options of `vllm serve` that Yoke has not: scripts made for it go on working where an option means
 * what Yoke does anyway, or cannot change an answer here; the others are refused with what to do instead. */
#ifndef YK_CLI_VLLM_OPTIONS_H
#define YK_CLI_VLLM_OPTIONS_H

#include "cli/options/options.h"

/* For every command that opens a model; those of the HTTP server among them. */
extern const yk_foreign_options yk_vllm_options;

#endif
