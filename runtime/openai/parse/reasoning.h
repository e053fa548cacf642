/* reasoning.h - how models mark the reasoning that precedes an answer. */
#ifndef YK_OPENAI_PARSE_REASONING_H
#define YK_OPENAI_PARSE_REASONING_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strbuf.h"
#include "yoke/requests.h"

typedef struct yk_reasoning {
  const char *name; /* vLLM's name of the parser */
  yk_reasoning_tags tags;
  bool has_channels;  /* the channel of a message decides (family_harmony.c); there are no tags */
  bool begins_inside; /* unless the prompt closes it, an answer begins with reasoning, without the open tag */
  bool is_content; /* reasoning and its tags are content, which begins with the open tag if the prompt has that tag */
  /* Tags around the answer after the reasoning, which are removed, or NULL. If answer_open equals tags.close, one tag
   * ends the reasoning and opens the answer. */
  const char *answer_open, *answer_close;
} yk_reasoning;

/* yk_reasoning_find - the tags of a parser's name; NULL for any other name. */
const yk_reasoning *yk_reasoning_find(const char *name);

/* YK_REASONING_NAMES - every name, for --help; errors have no room for the list. */
#define YK_REASONING_NAMES                                                                                             \
  "qwen3, deepseek_r1, deepseek_v3, glm45, glm47, kimi_k2, minimax_m2, minimax_m2_append_think, mistral, gemma4, "     \
  "granite, seed_oss, hunyuan_a13b, ernie45, nemotron_v3, olmo3, apriel, openai_gptoss"

/* yk_reasoning_of_template - the tags that a chat template contains; NULL if there are none. */
const yk_reasoning *yk_reasoning_of_template(const char *template_text);

typedef enum yk_reasoning_beginning {
  YK_REASONING_UNDECIDED,
  YK_REASONING_OPENED, /* the prompt ends with the open tag */
  YK_REASONING_ENDED   /* the prompt ends with the close tag */
} yk_reasoning_beginning;

/* yk_reasoning_beginning_of - by the end of a prompt's text [n_bytes], except for white space. */
yk_reasoning_beginning yk_reasoning_beginning_of(const yk_reasoning *reasoning, const char *prompt_end, size_t n_bytes);

/* Splits text byte by byte. Owned by the parser of an answer. */
typedef enum yk_reasoning_state {
  YK_REASONING_BEGINNING, /* white space and part of an open tag are held */
  YK_REASONING_INSIDE,    /* white space (not where reasoning is content) and part of a close tag are held */
  YK_REASONING_CLOSED,    /* white space after a close tag is dropped, and part of the answer's open tag held */
  YK_REASONING_ANSWER,    /* between the answer's tags; white space and part of the close tag are held */
  YK_REASONING_BEHIND
} yk_reasoning_state;

typedef struct yk_reasoning_split {
  const yk_reasoning *tags;
  yk_reasoning_state state;
  bool has_text;                /* of the part between tags */
  yk_strbuf held, held_special; /* a byte that is not 0 for each byte of a special token */
  size_t n_space;               /* white space at the beginning of held, before the part of a tag */
  void (*reason)(void *user, char c, bool is_special); /* takes a byte of the reasoning */
  void (*pass)(void *user, char c, bool is_special);   /* takes a byte outside the reasoning */
  void *user;
} yk_reasoning_split;

/* yk_reasoning_split_byte - the next byte of the text. is_special: of a special token. */
void yk_reasoning_split_byte(yk_reasoning_split *split, char c, bool is_special);

/* yk_reasoning_split_end - the text has ended. is_cut: the model did not end it, and part of a tag is dropped. */
void yk_reasoning_split_end(yk_reasoning_split *split, bool is_cut);

void yk_reasoning_split_free(yk_reasoning_split *split);

#endif
