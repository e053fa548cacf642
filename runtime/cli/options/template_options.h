/* template_options.h - options of chat templates, for every subcommand that takes conversations. */
#ifndef YK_CLI_TEMPLATE_OPTIONS_H
#define YK_CLI_TEMPLATE_OPTIONS_H

#include "base/json.h"
#include "cli/options/options.h"

enum { YK_TEMPLATE_OPTIONS = 4 };

typedef struct yk_template_options {
  const char *chat_template;                  /* NULL: the checkpoint's; "builtin:NAME", else a file */
  const char *tool_parser, *reasoning_parser; /* NULL: by the template */
  const char *kwargs_text;                    /* text of kwargs; NULL: none */
  yk_json_doc *kwargs;                        /* owned: an object of default variables for the template; NULL: none */
  yk_option table[YK_TEMPLATE_OPTIONS];
} yk_template_options;

/* yk_template_options_init - a table that stores into *options, which must not move. */
void yk_template_options_init(yk_template_options *options);
void yk_template_options_free(yk_template_options *options);

/* yk_template_options_group - the table for yk_command.groups. with_parsers: answers are parsed. */
yk_option_group yk_template_options_group(const yk_template_options *options, bool with_parsers);

/* yk_template_options_check - the parsers' names. Errors: YK_E_INVAL for an unknown name. */
yk_status yk_template_options_check(const yk_template_options *options, yk_err *err);

#endif
