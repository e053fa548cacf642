/* think_dimmer.h - dims the text between <think> and </think> at the beginning of an answer on a terminal. */
#ifndef YK_CLI_THINK_DIMMER_H
#define YK_CLI_THINK_DIMMER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

typedef enum yk_think_state { YK_THINK_BEGINNING, YK_THINK_INSIDE, YK_THINK_BEHIND } yk_think_state;

typedef struct yk_think_dimmer {
  yk_think_state state;
  char held[8]; /* [n_held] beginning of an incomplete tag */
  size_t n_held;
} yk_think_dimmer;

/* yk_think_dimmer_begin - start a new answer. prompt_tail: the end of its prompt; a <think> there, followed only by
 *   white space, opens the reasoning that the answer closes. Appends to out the text for the terminal. */
void yk_think_dimmer_begin(yk_think_dimmer *dimmer, const char *prompt_tail, yk_strbuf *out);

/* yk_think_dimmer_add - take the answer's next text [n_bytes], cut anywhere. Appends the text for the terminal, except
 *   characters that may become a tag. */
void yk_think_dimmer_add(yk_think_dimmer *dimmer, const char *text, size_t n_bytes, yk_strbuf *out);

/* yk_think_dimmer_end - append the held text, and reset the terminal's attributes. */
void yk_think_dimmer_end(yk_think_dimmer *dimmer, yk_strbuf *out);

#endif
