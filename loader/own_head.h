/* own_head.h - an lm_head beside a configuration that ties it to the embedding. Not for use outside the loader and
 * those who rewrite checkpoints. */
#ifndef YK_LOADER_OWN_HEAD_H
#define YK_LOADER_OWN_HEAD_H

#include "loader/safetensors/shards.h"

typedef enum yk_head {
  YK_HEAD_ABSENT, /* nothing but the embedding */
  YK_HEAD_SAME,   /* the embedding's bytes once more */
  YK_HEAD_OWN     /* other numbers, another type or shape, or quantised: used, whatever tie_word_embeddings says */
} yk_head;

/* yk_head_of - the head in the files, against the embedding (both are names of modules). Reads both tensors up to the
 *   first difference. Thread: any. */
yk_head yk_head_of(const yk_shards *shards, const char *embedding, const char *head);

#endif
