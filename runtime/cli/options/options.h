/* options.h - the options of every subcommand: one table for parsing, error messages and help.
 *
 * A value follows as `--name value` or `--name=value`; one dash or two, long name or short, make no difference (-tp 2,
 * --tp=2), unless one option's short name is another's long name: then two dashes select the long one (--n 2, -n 2).
 * Behind one dash and a short name a value may follow directly if it does not begin with a letter, as a mistyped name
 * would (-n4, -tp2, -m./model). The argument after an option that takes a value is its value, even if it begins with a
 * dash (--top-k -1). Underscores in a name count as dashes, as in vLLM. `--` ends the options. The last of several
 * occurrences counts, unless the option collects. */
#ifndef YK_CLI_OPTIONS_H
#define YK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

typedef enum yk_option_kind {
  YK_OPTION_FLAG,   /* bool: set by its presence */
  YK_OPTION_STRING, /* const char *: points into argv */
  YK_OPTION_INT,    /* int32_t in [min, max] */
  YK_OPTION_TOKENS, /* the same, also in vLLM's notation: 32k is 32,000, 32K 32,768, 1.5m 1,500,000 */
  YK_OPTION_SEED,   /* uint64_t, any; -1: not given, stores 0, which must be the default */
  YK_OPTION_NUMBER, /* double in [min, max] */
  YK_OPTION_BYTES,  /* int64_t >= 0, see yk_bytes_parse */
  YK_OPTION_CHOICE, /* int: index into choices */
  YK_OPTION_CALL    /* parse() stores the value */
} yk_option_kind;

typedef struct yk_option {
  const char *name;       /* without dashes */
  const char *short_name; /* "tp", "m"; or NULL */
  yk_option_kind kind;
  void *value;         /* destination; its contents before parsing are the default that help shows */
  const char *metavar; /* "DIR", "N"; NULL for flags, and for choices, which help lists instead */
  const char *help;
  const char *fallback; /* shown as the default instead of *value; "": no default is shown */
  double min, max;
  bool above_min;             /* min itself is excluded */
  const char *const *choices; /* NULL-terminated */
  const char *const *aliases; /* other names of choices: alias, choice, alias, choice, ..., NULL; or NULL */
  bool *given;                /* set when the option occurs; or NULL */
  bool takes_auto;            /* YK_OPTION_TOKENS: "auto" and -1 store 0 */
  bool takes_several;         /* YK_OPTION_CALL: arguments after the value, up to the next option, are values too */
  /* YK_OPTION_CALL that copies: the value is overwritten in argv, which other users can see */
  bool is_secret;
  yk_status (*parse)(void *value, const char *text, yk_err *err);
  const char *heading; /* title of a group in help that begins here; or NULL */
} yk_option;

typedef struct yk_option_group {
  const char *title;
  const yk_option *options;
  size_t n_options;
} yk_option_group;

/* Number of values that a foreign option takes. A flag's value is "true", or "false" for --no-NAME and --NAME=false. */
typedef enum yk_foreign_takes {
  YK_FOREIGN_FLAG,
  YK_FOREIGN_ONE,
  YK_FOREIGN_MAYBE,
  YK_FOREIGN_SEVERAL
} yk_foreign_takes;

/* An option of another program in a user's command line, which is skipped, or refused with a hint. */
typedef struct yk_foreign_option {
  const char *name, *short_name; /* as in yk_option; NAME.KEY with a value also names the option */
  yk_foreign_takes takes;
  const char *legal;   /* values that are skipped, as "auto|safetensors"; NULL: all; "": none */
  const char *instead; /* hint after the colon of a refusal; NULL if legal is NULL */
  bool is_secret;      /* as in yk_option */
} yk_foreign_option;

typedef struct yk_foreign_options {
  const yk_foreign_option *options; /* [n] */
  size_t n;
} yk_foreign_options;

typedef struct yk_command {
  const char *name;  /* "yoke generate" */
  const char *usage; /* "--model DIR [options]" */
  const char *about;
  const char *examples;
  const yk_option_group *groups;
  size_t n_groups;
  bool takes_operands;
  size_t min_operands;               /* own operands, if it takes any: a model may precede them */
  const char *instead;               /* hint for a command without operands: "prompts follow --prompt"; or NULL */
  struct yk_named_model *model;      /* set by the first operand if no option has named it; or NULL */
  const yk_foreign_options *foreign; /* or NULL */
} yk_command;

enum { YK_PASSED_OVER_MAX = 64 };

/* Result of parsing. */
typedef struct yk_arguments {
  bool help;                   /* --help occurred: later arguments were not read */
  const char *const *operands; /* [n_operands] arguments other than options; in argv, which is reordered */
  size_t n_operands;
  /* [n_passed_over] arguments that name foreign options, with "=value" if given so */
  const char *passed_over[YK_PASSED_OVER_MAX];
  size_t n_passed_over;
} yk_arguments;

/* yk_options_parse - store the options in argv[0 .. argc - 1].
 *   Errors: YK_E_INVAL naming the option, the accepted and the found value; for an unknown name also the most similar
 *   one. */
yk_status yk_options_parse(const yk_command *command, int argc, char **argv, yk_arguments *out, yk_err *err);

/* yk_options_find - the option with this long name, or NULL. */
const yk_option *yk_options_find(const yk_command *command, const char *name);

/* yk_options_help - print the command's purpose, its options with their defaults, and examples, to stdout, in 80
 *   columns except examples, which are printed unchanged. */
void yk_options_help(const yk_command *command);

/* yk_int_list_parse - append the integers of "5,6,7" (spaces allowed) to *ids, which is realloc'd and owned by the
 *   caller.
 *   Errors: YK_E_INVAL, YK_E_NOMEM. */
yk_status yk_int_list_parse(const char *text, int32_t **ids, size_t *n_ids, yk_err *err);

#endif
