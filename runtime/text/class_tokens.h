/* class_tokens.h - special tokens that tokenizer_config.json leaves to the class it names: the classes' own, in
 * transformers. */
#ifndef YK_TEXT_CLASS_TOKENS_H
#define YK_TEXT_CLASS_TOKENS_H

typedef struct yk_class_tokens {
  const char *name;                  /* without "Fast" */
  const char *bos, *eos, *unk, *pad; /* NULL: none */
} yk_class_tokens;

/* yk_class_tokens_find - those of a class ("LlamaTokenizer", with or without "Fast" behind; NULL: none is named); NULL
 *   of a class that has none of its own or is not known. */
const yk_class_tokens *yk_class_tokens_find(const char *name);

#endif
