/* unicode_tables.h - tables of character properties as in the public `tokenizers` package, written by
 * scripts/make_unicode_tables.py; unicode_property.h and unicode_form.h are their interface. */
#ifndef YK_TEXT_UNICODE_TABLES_H
#define YK_TEXT_UNICODE_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include "text/code_set.h"

enum { YK_LONG_FOLDING_MAX = 3 };

/* Every step-th code point from first to last is `distance` above the smallest of the code points that differ from it
 * only by case. */
typedef struct yk_folding_run {
  uint32_t first, last, step, distance;
} yk_folding_run;

/* Names are in lower case, without spaces, '-' and '_'. */
typedef struct yk_category_name {
  const char *name;
  uint32_t mask; /* bit i: category i */
} yk_category_name;

typedef struct yk_script_name {
  const char *name;
  uint32_t script;
} yk_script_name;

/* Runs of one category or script, ascending from code point 0: first code point << 8 | category or script. */
extern const uint32_t yk_unicode_category_runs[], yk_unicode_script_runs[];
extern const size_t yk_unicode_n_category_runs, yk_unicode_n_script_runs;

extern const yk_code_range yk_unicode_alphabetic[]; /* the property Alphabetic */
extern const yk_code_range yk_unicode_several[];    /* characters with a long folding */
extern const size_t yk_unicode_n_alphabetic, yk_unicode_n_several;

/* Characters that some normal form changes, moves or composes: code point c is one if bit c % 32 is set of word c / 32
 * % 8 of block yk_unicode_normalised_block_of[c / 256]. */
extern const uint8_t yk_unicode_normalised_block_of[];
extern const uint32_t yk_unicode_normalised_blocks[][8];

extern const yk_folding_run yk_unicode_foldings[];
/* Full case folding of one character, such as s s for U+00DF; padded with 0. */
extern const uint32_t yk_unicode_long_foldings[][YK_LONG_FOLDING_MAX];
extern const yk_category_name yk_unicode_category_names[];
extern const yk_script_name yk_unicode_script_names[];
extern const size_t yk_unicode_n_foldings, yk_unicode_n_long_foldings;
extern const size_t yk_unicode_n_category_names, yk_unicode_n_script_names;

#endif
