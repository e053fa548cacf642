/* cache_salts.h - the start of the chain of KV blocks for requests with a salt.
 *
 * Sequences share blocks only if their chains start with the same number. Each salt has a separate start, numbered like
 * the chains of blocks, so sequences with different salts never share blocks. The number of remembered salts is
 * limited. A forgotten salt gets a new start, and its sequences no longer find the blocks computed before. Owner and
 * thread: the engine's. No locks. */
#ifndef YK_ENGINE_LOOP_CACHE_SALTS_H
#define YK_ENGINE_LOOP_CACHE_SALTS_H

#include <stddef.h>

#include "engine/loop/kv_blocks.h"

enum { YK_CACHE_SALTS = 1024 }; /* remembered salts */

typedef struct yk_cache_salts {
  struct yk_cache_salt *salts; /* [YK_CACHE_SALTS], NULL until the first salt; entries start zeroed */
  uint64_t n_uses;
} yk_cache_salts;

/* An adapter and a text, which separate sequences. */
typedef struct yk_salt {
  uint64_t adapter_id; /* 0: none */
  const char *text;    /* [n_bytes] */
  size_t n_bytes;      /* 0: none */
} yk_salt;

/* yk_cache_salts_start - the start of the chain for sequences with this salt. Out of memory: a start that is used only
 *   once, so the sequence shares nothing. */
yk_kv_chain yk_cache_salts_start(yk_cache_salts *salts, yk_kv_blocks *blocks, const yk_salt *salt);

void yk_cache_salts_free(yk_cache_salts *salts);

#endif
