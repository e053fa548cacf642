/* think_dimmer.h - an answer on a terminal, with what stands between <think> and </think> at its beginning dimmed. */
#ifndef YK_CLI_THINK_DIMMER_H
#define YK_CLI_THINK_DIMMER_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"

typedef enum yk_think_state { YK_THINK_BEGINNING, YK_THINK_INSIDE, YK_THINK_BEHIND } yk_think_state;

typedef struct yk_think_dimmer {
  yk_think_state state;
  char held[8]; /* [n_held] the beginning of a tag of which the rest has not come */
  size_t n_held;
} yk_think_dimmer;

/* yk_think_dimmer_begin - a new answer. prompt_tail: the end of its prompt; a <think> there, but for white space at the
 *   very end, opens what the answer closes. Appends to out what the terminal is to show. */
void yk_think_dimmer_begin(yk_think_dimmer *dimmer, const char *prompt_tail, yk_strbuf *out);

/* yk_think_dimmer_add - the answer's next text [n_bytes], however it is cut. Appends what the terminal is to show, but
 *   for what may become a tag. */
void yk_think_dimmer_add(yk_think_dimmer *dimmer, const char *text, size_t n_bytes, yk_strbuf *out);

/* yk_think_dimmer_end - what is held, and the terminal as it was. */
void yk_think_dimmer_end(yk_think_dimmer *dimmer, yk_strbuf *out);

#endif
