/* own_head.h - a separate lm_head in files whose configuration ties it to the embedding. For use in the loader and in
 * code that rewrites checkpoints. */
#ifndef YK_LOADER_OWN_HEAD_H
#define YK_LOADER_OWN_HEAD_H

#include "loader/safetensors/shards.h"

typedef enum yk_head {
  YK_HEAD_ABSENT, /* the files have only the embedding */
  YK_HEAD_SAME,   /* the bytes equal those of the embedding */
  YK_HEAD_OWN     /* other numbers, another type or shape, or quantised: used for any tie_word_embeddings */
} yk_head;

/* yk_head_of - compare the head in the files with the embedding (both are module names). Reads both tensors up to the
 *   first difference. Thread: any. */
yk_head yk_head_of(const yk_shards *shards, const char *embedding, const char *head);

#endif
