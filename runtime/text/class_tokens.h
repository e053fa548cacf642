/* class_tokens.h - special tokens that transformers' tokenizer classes define by default; tokenizer_config.json only
 * names the class. */
#ifndef YK_TEXT_CLASS_TOKENS_H
#define YK_TEXT_CLASS_TOKENS_H

typedef struct yk_class_tokens {
  const char *name;                  /* without "Fast" */
  const char *bos, *eos, *unk, *pad; /* NULL: none */
} yk_class_tokens;

/* yk_class_tokens_find - the special tokens of a class ("LlamaTokenizer", with or without "Fast" at the end; NULL: no
 *   class is named). Returns NULL for a class that is unknown or defines none. */
const yk_class_tokens *yk_class_tokens_find(const char *name);

#endif
